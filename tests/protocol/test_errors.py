import pickle

import pytest

from django_ray import errors

CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
]


def test_there_is_one_root_and_ten_classes_below_or_it():
    assert len(CLASSES) == 10
    assert all(issubclass(kind, errors.DjangoRayError) for kind in CLASSES)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_says_what_it_means(kind):
    assert kind.__doc__


def test_an_error_without_a_text_takes_the_sentence_of_its_class():
    assert str(errors.ConfigurationError()) == (
        "A setting or capacity that can never work."
    )
    assert str(errors.InvalidCursor()) == (
        "A cursor is forged, foreign or outdated in shape."
    )


def test_an_error_with_a_text_keeps_it():
    assert str(errors.ReadError("The run is gone.")) == "The run is gone."


def test_a_protocol_error_carries_its_reason():
    error = errors.ProtocolError("malformed_frame")
    assert error.reason == "malformed_frame"
    assert "malformed_frame" in str(error)


def test_a_crossed_limit_carries_boundary_limit_and_actual():
    error = errors.LimitExceeded("message", 2_048, 10_485_760)
    assert isinstance(error, errors.ProtocolError)
    assert (error.boundary, error.limit, error.actual) == ("message", 2_048, 10_485_760)
    assert error.reason == "limit_exceeded"
    assert str(error) == "message is 10,485,760; the limit is 2,048."


def test_a_refused_graph_carries_its_reason():
    error = errors.GraphRefused("a cycle")
    assert error.reason == "a cycle"
    assert str(error) == "The workflow's graph is refused: a cycle."


def test_an_integrity_fault_carries_what_a_reader_says():
    error = errors.IntegrityFault("A page is gone.", "MISSING")
    assert (str(error), error.availability) == ("A page is gone.", "MISSING")


def test_an_error_that_travels_arrives_as_what_it_was():
    for error in (
        errors.ProtocolError("malformed"),
        errors.LimitExceeded("input", 1, 2),
        errors.GraphRefused("the graph has a cycle"),
        errors.InvocationFailed("GET_TIMEOUT", "MAY_HAVE_STARTED", "PROHIBITED", ()),
    ):
        arrived = pickle.loads(pickle.dumps(error))
        assert str(arrived) == str(error)
        assert vars(arrived) == vars(error)
