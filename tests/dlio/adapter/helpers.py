"""What initialize() of rank0_fork.py calls where its names come from helpers."""


def own_numbers(rank, files, size):
    """The numbers of a rank's files."""
    return range(rank, files, size)
