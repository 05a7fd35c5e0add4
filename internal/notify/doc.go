// Package notify tells the outside world of an end: a webhook by the convention of Standard Webhooks, or an e-mail.
//
// The promise (level 3): what an endpoint is told carries the notification's key, the same at each attempt, in the header
// webhook-id or as the Message-ID, so that a receiver that keeps what it has seen acts once. A webhook goes only to where
// the settings say: it follows no redirect, and does not reach into the network that the worker is in unless it may.
//
// What it does not promise: that the receiver sees it once. A reply that is lost is no reply, and it is sent again. Nor does
// it know in which order several ends are told.
package notify
