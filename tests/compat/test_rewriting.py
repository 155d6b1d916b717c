import pytest

from workbench.compat.rewriting import Replacement, RewriteError, rewrite


def test_every_occurrence_is_replaced_when_the_count_is_right():
    source = "a = numpy.float\nb = numpy.float\n"

    text = rewrite(source, [Replacement("numpy.float", "float", "gone", times=2)])

    assert text == "a = float\nb = float\n"


@pytest.mark.parametrize("source", ["nothing here\n", "x = old\ny = old\n"])
def test_text_that_occurs_too_rarely_or_too_often_is_refused(source):
    with pytest.raises(RewriteError, match=r"'old' occurs \d times instead of 1"):
        rewrite(source, [Replacement("old", "new", "why")])


def test_a_source_without_replacements_stays_as_it_is():
    assert rewrite("pass\n", ()) == "pass\n"
