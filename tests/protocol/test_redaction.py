import time

import pytest

from django_ray.errors import ConfigurationError
from django_ray.protocol import frames, text
from django_ray.protocol.limits import V1
from django_ray.protocol.redaction import MARK, Redactor, compose

JWT = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
    "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc+/def==\n"
    "-----END RSA PRIVATE KEY-----"
)

# Where the secret is, and what of the text around it stays.
FORMS = [
    ("password=hunter2 user=bob", "hunter2", "password=[redacted] user=bob"),
    ("DB_PASSWORD: hunter2", "hunter2", "DB_PASSWORD: [redacted]"),
    ("db-passwd = hunter2", "hunter2", "db-passwd = [redacted]"),
    ("{'password': 'hunter2', 'a': 'b'}", "hunter2", "'a': 'b'"),
    ('{"api_key": "hun ter2", "a": "b"}', "ter2", '"a": "b"'),
    ('{"apiKey":"hunter2","a":"b"}', "hunter2", ',"a":"b"}'),
    ("{'Api-Key': b'hunter2', 'a': 1}", "hunter2", "'a': 1"),
    ("api key: hunter2", "hunter2", "api key: "),
    ("X-Api-Key: hunter2\nHost: a", "hunter2", "\nHost: a"),
    ("{'client_secret': \"it's hunter2\"}", "hunter2", "client_secret"),
    ('{"secret": "esc\\"hunter2", "a": 1}', "hunter2", '"a": 1'),
    ('{\\"password\\": \\"hunter2\\"}', "hunter2", "password"),
    ("tokens=['abc1', 'hunter2'] and more", "hunter2", "and more"),
    ("secrets: {'a': {'b': 'hunter2'}, 'c': 'hunter2'} more", "hunter2", "more"),
    ("password=[abc]hunter2 more", "hunter2", "more"),
    ("password=my\\ hunter2 host=a", "hunter2", "host=a"),
    ("token == 'hunter2' is false", "hunter2", "is false"),
    ("token => hunter2 more", "hunter2", "more"),
    ('password: str = "hunter2"', "hunter2", "password: str"),
    ("<password>hunter2</password>", "hunter2", "<password>"),
    ("token: Bearer hunter2 more", "hunter2", "more"),
    ("secret=-----BEGIN X-----\nhunter2", "hunter2", "secret="),
    ("secret: abc-----BEGIN X-----\nhunter2", "hunter2", "secret: "),
    ("['psql', '--password', 'hunter2', '-h']", "hunter2", "'psql'"),
    ("psql --password hunter2 -h a", "hunter2", "-h a"),
    ("x --db-password 'hun ter2' -h a", "ter2", "-h a"),
    ("x --token=hunter2 -h a", "hunter2", "-h a"),
    ("Authorization: Token abc hunter2\nHost: a", "hunter2", "\nHost: a"),
    ('proxy-authorization: Digest u="a", r=hunter2', "hunter2", "proxy-"),
    ("{'Authorization': 'Token hunter2', 'a': 'b'}", "hunter2", "'a': 'b'"),
    ("[(b'authorization', b'Bearer hunter2'), (b'a', b'b')]", "hunter2", "b'b'"),
    ("Cookie: a=b; session=hunter2; c=d\nHost: a", "hunter2", "\nHost: a"),
    ("Set-Cookie: session=hunter2; Path=/", "hunter2", "Set-Cookie: "),
    ("private_key: hunter2", "hunter2", "private_key: "),
    ("postgres://bob:hunter2@db:5432/app", "hunter2", "@db:5432/app"),
    ("postgres://bob:hun/t@er2@db/app", "er2@", "@db/app"),
    ("postgres://bob@corp.com:hun/ter2@db/app", "ter2", "@db/app"),
    ("redis://:hunter2@cache/0", "hunter2", "@cache/0"),
    ("https://hunter2@github.com/a/b", "hunter2", "@github.com/a/b"),
    ("see https://a:1234@b and more", "1234", "and more"),
    ("sent Bearer hunter2.abc-_~+/=", "hunter2", "sent "),
    ("BEARER   hunter2", "hunter2", "BEARER"),
    ("bearer%20hunter2", "hunter2", "bearer"),
    ("sent Basic Ym9iOmh1bnRlcjI=", "Ym9iOmh1bnRlcjI", "sent "),
    (f"got {JWT} back", JWT[:20], " back"),
    (f"got {JWT.split('.')[0]} back", JWT[:20], " back"),
    (f"read {PEM} then", "MIIE", "read [redacted] then"),
    (f"{PEM!r}", "MIIE", ""),
    ("-----BEGIN PRIVATE KEY-----\nMIIEhunter2", "hunter2", ""),
    ("AKIAIOSFODNN7EXAMPLE.", "IOSFODNN", "."),
    ("key ASIAIOSFODNN7EXAMPLE", "IOSFODNN", "key "),
    ("ghp_" + "a1B2" * 9, "a1B2", ""),
    ("gho_" + "a1B2" * 9, "a1B2", ""),
    ("ghu_" + "a1B2" * 9, "a1B2", ""),
    ("ghs_" + "a1B2" * 9, "a1B2", ""),
    ("ghr_" + "a1B2" * 9, "a1B2", ""),
    ("github_pat_" + "a1B2" * 10, "a1B2", ""),
    ("xapp-1-A1B2C3D4-a1b2c3d4", "a1b2c3d4", ""),
    ("hooks.slack.com/services/T000/B000/hunter2", "hunter2", ""),
    ("ABIAIOSFODNN7EXAMPLE", "IOSFODNN", ""),
    ("ACCAIOSFODNN7EXAMPLE", "IOSFODNN", ""),
    ("1//0" + "a1B2" * 10, "a1B2", ""),
    ("-----BEGIN CERTIFICATE-----\nMIIEhunter2", "hunter2", ""),
    ("{'Cookie': 'session=hunter2; c=d', 'a': 'b'}", "hunter2", "'a': 'b'"),
    ("xoxb-1234567890-abcdefghij", "abcdefghij", ""),
    ("https://hooks.slack.com/services/T000/B000/hunter2", "hunter2", "https://"),
    ("sk_live_" + "a1B2" * 6, "a1B2", ""),
    ("rk_test_" + "a1B2" * 6, "a1B2", ""),
    ("whsec_" + "a1B2" * 6, "a1B2", ""),
    ("AIza" + "a1B2c3D" * 5, "a1B2", ""),
    ("ya29.a0Af" + "a1B2" * 6, "a1B2", ""),
    ("GOCSPX-" + "a1B2" * 6, "a1B2", ""),
]

HARMLESS = [
    "",
    "parsing file 3 of 10",
    "basic authentication failed",
    "http://localhost:8000/path?x=1#y",
    "http://localhost:8000/a@b",
    "https://example.com/@user/post",
    "mail bob@example.com about it",
    "the token is missing",
    "a private matter",
    "keyboard layout: qwerty",
    "ratio 3:4, a=b",
]


@pytest.fixture(scope="module")
def redactor():
    return Redactor(())


@pytest.mark.parametrize(("value", "secret", "kept"), FORMS)
def test_every_form_of_secret_is_taken_out_and_the_rest_stays(
    redactor, value, secret, kept
):
    redacted = redactor.text(value)
    assert secret not in redacted
    assert MARK in redacted
    assert kept in redacted


@pytest.mark.parametrize(("value", "secret", "kept"), FORMS)
def test_a_secret_is_taken_out_between_other_text(redactor, value, secret, kept):
    redacted = redactor.text(f"before {value}\nafter")
    assert secret not in redacted
    assert redacted.startswith("before ")


@pytest.mark.parametrize(("value", "secret", "kept"), FORMS)
def test_a_secret_stays_hidden_wherever_a_cut_falls(redactor, value, secret, kept):
    # 4 KiB of filler move the form over the end of the window of a 1 KiB text.
    limit = 1_024
    for room in range(limit - len(value) - 30, limit + 10, 7):
        message = "x" * room + " " + value
        assert secret not in redactor.fit(message, limit)
    shrinking = "password=" + "z" * 5_000 + " "
    for room in range(0, len(value) + 600, 13):
        message = shrinking[room:] + value + "y" * 9_000
        fitted = redactor.fit(message, limit)
        assert secret not in fitted
        assert "zzz" not in fitted or room > 9


@pytest.mark.parametrize(("value", "secret", "kept"), FORMS)
def test_no_prefix_of_a_secret_is_shown_when_the_window_ends_within(
    redactor, value, secret, kept
):
    limit = 64
    window = 4 * limit + 1_024
    start = value.find(secret) if secret in value else 0
    for inside in range(start + 1, len(value)):
        # All before is one long redacted value, so the end of the window would be shown.
        lead = "password='" + "z" * (window - inside - 12) + "' "
        fitted = redactor.fit(lead + value + " " + "y" * 5_000, limit)
        assert secret[: max(4, len(secret) // 2)] not in fitted


@pytest.mark.parametrize("value", HARMLESS)
def test_harmless_text_stays_as_it_is(redactor, value):
    assert redactor.text(value) == value


def test_a_userinfo_of_ten_megabytes_is_not_shown(redactor):
    fitted = redactor.fit("postgres://bob:" + "hunter2" * 1_500_000 + "@db", 2_048)
    assert "hunter" not in fitted
    assert fitted.endswith("bytes]")


def test_control_characters_do_not_hide_a_secret(redactor):
    fitted = redactor.fit("password=ab\x1fhunter2 more", 2_048)
    assert "hunter2" not in fitted
    assert text.is_clean(fitted)


def test_a_long_text_says_its_true_size(redactor):
    fitted = redactor.fit("password=" + "x" * 10_485_751, 2_048)
    assert fitted == "password=[redacted]… [10,485,760 bytes]"


def test_redacting_twice_changes_nothing_for_a_simple_form(redactor):
    once = redactor.text("password=a token: 'b' postgres://u:p@h Bearer c")
    assert redactor.text(once) == once


def test_metrics_lose_values_under_secret_keys_and_secrets_in_texts(redactor):
    metrics = {
        "bytes": 812,
        "API_KEY": "abc",
        "access-token": 12,
        "url": "redis://:hunter2@h",
        "ok": True,
        "ratio": 0.5,
    }
    assert redactor.mapping(metrics) == {
        "bytes": 812,
        "API_KEY": MARK,
        "access-token": MARK,
        "url": "redis://[redacted]@h",
        "ok": True,
        "ratio": 0.5,
    }


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("ghp_" + "a" * 36, MARK),
        ("AKIAIOSFODNN7EXAMPLE rows", f"{MARK} rows"),
        ("password=hunter2", f"password={MARK}"),
        ("redis://:hunter2@h", f"redis://{MARK}@h"),
        ("internal-42", MARK),
    ],
)
def test_a_key_that_holds_a_secret_is_redacted_as_text(key, shown):
    redactor = Redactor(("internal-[0-9]+", "hunter"))
    assert list(redactor.mapping({"a": 1, key: 2, "b": 3})) == ["a", shown, "b"]


def test_keys_that_differ_in_their_secrets_alone_become_one_without_a_value(redactor):
    first, second = "ghp_" + "a" * 36, "ghp_" + "b" * 36
    metrics = {first: 1, "rows": 2, second: 3, MARK: 4}
    assert redactor.mapping(metrics) == {MARK: MARK, "rows": 2}
    assert redactor.mapping({first: 1}) == {MARK: 1}


def test_a_metric_too_long_to_be_one_is_not_read_to_its_end(redactor):
    value = redactor.mapping({"k": "cookie" * 2_000_000})["k"]
    assert V1.metric_string < len(value) <= V1.record


def test_a_plain_word_of_the_deployment_is_a_key_and_a_form():
    redactor = Redactor(("account_number",))
    assert redactor.text("ACCOUNT_NUMBER=12345 x") == "ACCOUNT_NUMBER=[redacted] x"
    assert redactor.text("no account_number here") == "no [redacted] here"
    assert redactor.mapping({"account_number": 1}) == {"account_number": MARK}


def test_an_expression_of_the_deployment_is_taken_out():
    redactor = Redactor((r"ACME-\d{4}", r"(ab)+c"))
    assert redactor.text("id ACME-1234, ababc, token=x") == (
        "id [redacted], [redacted], token=[redacted]"
    )


@pytest.mark.parametrize("entry", ["(", "a*", "", "[", "(?P<key>x)|"])
def test_an_expression_that_cannot_work_is_refused(entry):
    with pytest.raises(ConfigurationError):
        Redactor((entry,))


def test_a_composed_failure_is_redacted_and_within_its_bound(redactor):
    failure = compose("ValueError", "token=hunter2 " + "x" * 10_000_000, redactor)
    assert failure.kind == "ValueError"
    assert "hunter2" not in failure.text
    assert len(failure.kind.encode()) + len(failure.text.encode()) == V1.error


@pytest.mark.parametrize(
    "kind", ["", "E" * 127, "E" * 128, "E" * 129, "a\nb", "é" * 99]
)
@pytest.mark.parametrize("size", [0, 1, 1_919, 1_920, 1_921, 2_048, 9_999])
def test_every_composed_failure_passes_the_wire(redactor, kind, size):
    failure = compose(kind, "é\x1b" * size, redactor)
    record = frames.End(outcome="FAILED", at_ms=1, error=failure)
    frame = frames.Frame(
        format=frames.FORMAT,
        run_id="0" * 36,
        generation=1,
        producer=b"p" * 16,
        kind=frames.ProducerKind.coordinator,
        number=1,
        writer_epoch=0,
        records=(record,),
    )
    assert frames.decode(frames.encode(frame)) == frame


ADVERSARIAL = [
    *("token", "token=", "token, ", "'token', ", 'token""""', "password: str"),
    *("password='", 'password="', "password=[", "password=[(", "password=\\"),
    *("--token ", "--", "--a ", "://", "://a:", "://a:1", "://a@", "a:b@"),
    *("eyJ", "AKIA", "ghp_", "1//0", "ya29.", "xoxb-", "sk_live_", "Basic a"),
    *("-----BEGIN ", "-----BEGIN X-----", "bearer ", "basic ", "private>"),
    *("authorization: ", "cookie", "api key ", "secret" + " " * 9, "a", "\\", '"'),
]


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_time_grows_with_the_text_and_not_faster(redactor, unit):
    def taken(size):
        value = unit * (size // len(unit))
        started = time.thread_time()
        redactor.text(value)
        return time.thread_time() - started

    small = min(taken(10_000) for _ in range(4))
    large = min(taken(80_000) for _ in range(2))
    # Eight times the text; a quadratic form would need sixty-four times the time.
    assert large <= 24 * small + 0.005


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_ten_megabytes_cost_no_more_than_a_window(redactor, unit):
    window = unit * (9_216 // len(unit))
    whole = unit * (10_000_000 // len(unit))
    small = min(_timed(redactor, window) for _ in range(3))
    large = min(_timed(redactor, whole) for _ in range(2))
    assert large <= 20 * small + 0.02


def _timed(redactor, value):
    started = time.thread_time()
    redactor.fit(value, 2_048)
    return time.thread_time() - started


@pytest.mark.parametrize("size", [15, 16, 17, 63, 64, 65, 100_000])
def test_a_label_is_one_short_line_without_secrets(redactor, size):
    told = redactor.label("a\npassword=" + "s3cr3t" * size, 16)

    assert told.startswith("a\ufffdpassword=")
    assert told.endswith("…")
    assert len(told.encode()) <= 16
    assert "s3c" not in told
