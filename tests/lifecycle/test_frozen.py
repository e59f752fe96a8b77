"""Values that were made fast are the frozen class's own."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.frozen import maker
from django_ray.lifecycle.results import Transition
from django_ray.lifecycle.shape import is_known
from django_ray.lifecycle.state import is_sealed
from tests.lifecycle.making import Session

MADE = {
    "session": lambda: Session().ready().running().state,
    "invocation": lambda: Session().ready().running().state.invocation,
    "action": lambda: Session().ready().admitted().action,
}


@pytest.mark.parametrize("name", MADE)
def test_a_value_of_the_reducer_is_frozen_and_equals_one_of_the_constructor(name):
    value = MADE[name]()
    plain = type(value)(**{f.name: getattr(value, f.name) for f in fields(value)})
    assert (value, hash(value), repr(value)) == (plain, hash(plain), repr(plain))
    assert pickle.loads(pickle.dumps(value)) == value
    field = fields(value)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, None)
    with pytest.raises(FrozenInstanceError):
        delattr(value, field)


@pytest.mark.parametrize("kind", [Action, Transition])
def test_a_maker_takes_all_fields_and_no_others(kind):
    names = [field.name for field in fields(kind)]
    assert type(maker(kind)(**dict.fromkeys(names))) is kind
    with pytest.raises(TypeError):
        maker(kind)(**dict.fromkeys(names[1:]))
    with pytest.raises(TypeError):
        maker(kind)(**dict.fromkeys([*names, "other"]))


@pytest.mark.parametrize(
    "remade",
    [
        replace,
        copy.copy,
        copy.deepcopy,
        lambda state: pickle.loads(pickle.dumps(state)),
    ],
    ids=["replace", "copy", "deepcopy", "pickle"],
)
def test_the_seal_is_the_reducers_and_passes_to_no_other_object(remade):
    state = Session().ready().running().state
    assert is_sealed(state)
    assert not is_sealed(remade(state))
    assert is_known(remade(state))
