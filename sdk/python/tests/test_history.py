"""Keys, and what is recorded under them."""

from __future__ import annotations

import pytest

from abide import CodeChangedError
from abide.history import Branch, History


def test_the_second_use_of_a_name_has_a_number() -> None:
    history, root = History("work:1"), Branch()
    assert [history.key(root, "fetch") for _ in range(3)] == ["fetch", "fetch#2", "fetch#3"]
    assert history.key(root, "read") == "read"


def test_branches_count_for_themselves() -> None:
    history, root = History("work:1"), Branch()
    first, second = root.child(), root.child()
    assert history.key(second, "fetch") == "fetch@2"
    assert history.key(first, "fetch") == "fetch@1"
    assert history.key(first, "fetch") == "fetch@1#2"
    assert history.key(second.child(), "fetch") == "fetch@2.1"
    assert history.key(root.child("run_one"), "fetch") == "fetch@run_one-1"


def test_questions_are_known_by_their_number_and_in_branches_by_their_place() -> None:
    history, root = History("work:1"), Branch()
    assert (history.ask(root, None).key, history.ask(root, None).call) == (None, 2)
    assert history.ask(root.child(), None).key == "work:1@1:1"
    assert history.ask(root, "mine").key == "mine"


def test_something_new_before_what_is_recorded_is_a_change_of_code() -> None:
    history, root = History("work:1", [{"kind": "step", "key": "a", "value": 1}]), Branch()
    with pytest.raises(CodeChangedError, match=r"asks for step 'b'.*came to step 'a' first"):
        history.check_new(root, "step", "b", "run r, node n")
    assert history.claim("step", "a") == {"kind": "step", "key": "a", "value": 1}
    history.check_new(root, "step", "b", "run r, node n")


def test_what_other_branches_have_recorded_is_no_change_of_code() -> None:
    items = [{"kind": "step", "key": "a@1", "value": 1}, {"kind": "ask", "key": "mine", "call": 1}]
    history, root = History("work:1", items), Branch()
    history.check_new(root, "step", "b", "run r, node n")
    with pytest.raises(CodeChangedError):
        history.check_new(root.child(), "step", "b@1", "run r, node n")


def test_an_end_that_leaves_out_what_is_recorded_is_a_change_of_code() -> None:
    history = History("work:1", [{"kind": "ask", "key": None, "call": 1}])
    with pytest.raises(CodeChangedError, match="ends, but when it ran before it came to question 1"):
        history.check_end("run r, node n")


def test_versions_hold_for_the_whole_function() -> None:
    history = History("work:1", [{"kind": "version", "key": "vat", "version": 1}])
    history.check_end("run r, node n")
    assert history.claim("version", "vat") == {"kind": "version", "key": "vat", "version": 1}


def test_a_version_is_old_if_the_function_was_further_by_any_branch_or_key() -> None:
    for item in (
        {"kind": "step", "key": "a", "value": 1},
        {"kind": "step", "key": "a@1", "value": 1},
        {"kind": "ask", "key": "chosen", "call": 1},
    ):
        history, root = History("work:1", [item]), Branch()
        assert history.was_past(root)
        history.claim(str(item["kind"]), str(item["key"]))
        assert not history.was_past(root)


def test_a_step_of_the_same_name_in_another_branch_is_a_namesake() -> None:
    history = History(
        "run", [{"kind": "step", "key": "pay@1", "value": 1}, {"kind": "step", "key": "pay#2", "value": 1}]
    )
    assert history.namesake("pay@2") == "pay@1"
    assert history.namesake("payment") is None
    history.claim("step", "pay@1")
    assert history.namesake("pay@2") == "pay#2"
    history.claim("step", "pay#2")
    assert history.namesake("pay@2") is None
