"""Brackets of a help text are printed: they are no markup."""


def test_help_keeps_the_name_of_an_extra(anabranch) -> None:
    done = anabranch("theory", "prove", "--help")
    assert 'pip install "anabranch[prove]"' in " ".join(done.stdout.split())
