//! Somebody in front of a browser that only knows cookies, links and forms.

use reqwest::header::{COOKIE, HeaderMap, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::{Method, StatusCode};

use crate::support::Server;

/// Somebody, and the cookie that they have.
pub(super) struct Person<'a> {
    server: &'a Server,
    http: reqwest::Client,
    pub(super) cookie: Option<String>,
}

/// A page that they got.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) html: String,
}

impl Page {
    /// Where it leads on to, if it does.
    pub(super) fn leads_to(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{self:?}");
        self.headers[LOCATION].to_str().unwrap()
    }

    /// The token that its forms carry.
    pub(super) fn token(&self) -> &str {
        let (_, rest) = self.html.split_once("name=\"form-token\" value=\"").unwrap();
        rest.split_once('"').unwrap().0
    }

    pub(super) fn says(&self, text: &str) -> bool {
        self.html.contains(text)
    }
}

impl<'a> Person<'a> {
    pub(super) fn at(server: &'a Server) -> Self {
        let policy = reqwest::redirect::Policy::none();
        Self { server, http: reqwest::Client::builder().redirect(policy).build().unwrap(), cookie: None }
    }

    /// Somebody who has signed in with this key.
    pub(super) async fn with_key(server: &'a Server, key: &str) -> Self {
        let mut person = Self::at(server);
        let page = person.sign_in(key, "").await;
        assert_eq!(page.leads_to(), "/inbox");
        person
    }

    pub(super) async fn sign_in(&mut self, key: &str, next: &str) -> Page {
        let page = self.post("/sign-in", &[("key", key), ("next", next)]).await;
        if let Some(cookie) = page.headers.get(SET_COOKIE) {
            self.cookie = Some(cookie.to_str().unwrap().split(';').next().unwrap().to_owned());
        }
        page
    }

    pub(super) async fn get(&self, path: &str) -> Page {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a form as it is.
    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.send(self.form(path, fields).header(ORIGIN, &self.server.url)).await
    }

    /// Opens a page, and sends the form on it with these fields.
    pub(super) async fn fill_in(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let page = self.get(path).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        self.post(path, &[&[("form-token", page.token())], fields].concat()).await
    }

    pub(super) fn form(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let body = fields.iter().fold(reqwest::Url::parse("a:b").unwrap(), |mut url, (name, value)| {
            url.query_pairs_mut().append_pair(name, value);
            url
        });
        let body = body.query().unwrap_or_default().to_owned();
        let kind = "application/x-www-form-urlencoded";
        self.request(Method::POST, path).header(reqwest::header::CONTENT_TYPE, kind).body(body)
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.server.url));
        self.cookie.iter().fold(request, |request, cookie| request.header(COOKIE, cookie))
    }

    pub(super) async fn send(&self, request: reqwest::RequestBuilder) -> Page {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Page { status, headers, html: response.text().await.unwrap() }
    }
}
