"""A real mail server for the tests: it takes mail on loopback and prints each one as a line of JSON.

The first line is the port. What a recipient is called says what becomes of mail to them: `later@` is refused for now,
`nobody@` for good, `silence@` is never answered.
"""

import argparse
import asyncio
import email
import email.policy
import json
import ssl

from aiosmtpd.smtp import SMTP, AuthResult

REFUSALS = {"later": "450 4.2.1 the mailbox is busy", "nobody": "550 5.1.1 there is nobody of that name"}


class Receiver:
    async def handle_RCPT(self, server, session, envelope, address, options):
        name = address.split("@")[0]
        if name == "silence":
            await asyncio.Event().wait()
        if name in REFUSALS:
            return REFUSALS[name]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        received = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "encrypted": server.transport.get_extra_info("cipher") is not None,
            "user": session.auth_data,
            "hello": session.host_name,
            "type": mail.get_content_type(),
            "headers": {name.lower(): str(value) for name, value in mail.items()},
            "names": [name for name, _ in mail.items()],
            "parts": {part.get_content_type(): "\n".join(part.get_content().splitlines()) for part in mail.iter_parts()},
            "order": [part.get_content_type() for part in mail.iter_parts()],
            "defects": [str(defect) for part in mail.walk() for defect in part.defects],
        }
        print(json.dumps(received), flush=True)
        return "250 2.0.0 taken as 4711"


def authenticator(user, password):
    def check(server, session, envelope, mechanism, data):
        right = data.login == user.encode() and data.password == password.encode()
        return AuthResult(success=right, handled=False, auth_data=data.login.decode() if right else None)

    return check


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--mode", choices=["plain", "starttls", "tls"], default="plain")
    parser.add_argument("--user")
    parser.add_argument("--password")
    given = parser.parse_args()

    context = None
    if given.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(given.certificate, given.key)
    settings = {"hostname": "mail.test"}
    if given.mode == "starttls":
        settings |= {"tls_context": context, "require_starttls": True}
    if given.user:
        settings |= {
            "authenticator": authenticator(given.user, given.password),
            "auth_required": True,
            "auth_require_tls": given.mode == "starttls",
        }
    loop = asyncio.get_running_loop()
    wrapper = context if given.mode == "tls" else None
    server = await loop.create_server(
        lambda: SMTP(Receiver(), loop=loop, **settings), "127.0.0.1", 0, ssl=wrapper
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
