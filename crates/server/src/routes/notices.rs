//! Who was told what, and over which channels.

use crate::notices_api::{
    ChannelList, NoticeListing, NoticePage, NoticeView, TestChannel, Tested, channels, list, resend, test,
};
use crate::operation::Operation;
use crate::scope::Scope;

/// They are what webhooks are to events, so whoever looks after those looks after these.
pub(super) fn notices() -> Vec<Operation> {
    vec![
        Operation::get("/v1/notices", "listNotices", "Who was told what, and who was not and why.", list)
            .query::<NoticeListing>()
            .answers::<NoticePage>(200, "A page of messages, those of the newest runs first."),
        Operation::post(
            "/v1/notices/{deliveryId}:resend",
            "resendNotice",
            "Sends a message that was given up once more.",
            resend,
        )
        .answers::<NoticeView>(200, "The message, which is on its way again.")
        .refuses(&["notice_not_found", "notice_not_dead"]),
        Operation::get(
            "/v1/channels",
            "listChannels",
            "The ways to reach people, without secrets.",
            channels,
        )
        .answers::<ChannelList>(200, "The channels."),
        Operation::post(
            "/v1/channels/{channelName}:test",
            "testChannel",
            "Sends a message that says nothing but that the channel works.",
            test,
        )
        .takes::<TestChannel>()
        .answers::<Tested>(200, "Whether it was taken, and if not, why.")
        .refuses(&["channel_not_found"]),
    ]
    .into_iter()
    .map(|operation| operation.scope(Scope::WebhooksManage))
    .collect()
}
