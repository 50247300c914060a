//! The rules for redirects: how many are followed, where they lead, and which requests have credentials.

use ureq::http::Response;

use crate::http_url::HttpUrl;
use base::encoding::basic_authorization;

/// The maximum number of redirects that one request follows.
pub(super) const MAX_REDIRECTS: usize = 10;

/// Returns true if the answer is a redirect.
pub(super) fn is_redirect(response: &Response<ureq::Body>) -> bool {
    matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the target of a redirect that the server of `url` answered with, or nothing if it is unusable.
pub(super) fn target(response: &Response<ureq::Body>, url: &HttpUrl) -> Option<HttpUrl> {
    url.redirect_target(response.headers().get("location")?.to_str().ok()?)
}

/// Returns the header `Authorization` of a request for `url`, to which redirects led from `first`. The
/// credentials of `first` go only to its own host and port.
pub(super) fn authorization(first: &HttpUrl, url: &HttpUrl) -> Option<String> {
    let first_credentials = || first.user().filter(|_| first.may_share_credentials(url));
    url.user().or_else(first_credentials).map(|(user, password)| basic_authorization(&user, &password))
}
