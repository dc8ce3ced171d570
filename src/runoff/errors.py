"""Every error that Runoff raises on purpose.

RunoffError
  SourceError          a feed, file or address that cannot be read
    FetchError         an address that did not answer with a document
  DocumentError        a record that cannot become a document
  QueryError           a query or a search setting out of range
    FilterError          a filter that cannot be read, or that asks for what the store does not have
  EvaluationError      an evaluation whose questions or folder do not fit
  BudgetError          a token budget that cannot hold the prompt
  ModelError           a model artifact that is missing, damaged or unfit
    ArtifactDamagedError   bytes on disk differ from the manifest
    BackendError           a backend that cannot run here or fails its self-test
  StoreError           a store folder that cannot be used
    StoreMissingError      no store at that path
    StoreDamagedError      bytes on disk differ from the manifest
    StoreMismatchError     made by other models or settings
    StoreLockedError       another process is writing
  ExportError          a checkpoint that cannot become an artifact
  OverloadedError      as many calls wait as may
  DeadlineError        a call that was not done in its time

A message says what came, what was expected and what to do, in that order.
"""


class RunoffError(Exception):
    """Base of all errors raised by Runoff."""


class SourceError(RunoffError):
    """A feed, file or folder cannot be read as documents."""


class FetchError(SourceError):
    """An http(s) address did not answer with a usable document."""


class DocumentError(RunoffError, ValueError):
    """A record cannot become a document (a field is missing or has the wrong type)."""


class QueryError(RunoffError, ValueError):
    """A query or a search setting is out of range."""


class FilterError(QueryError):
    """A filter cannot be read, compares what cannot be compared, or names a field that the store does not have."""


class EvaluationError(RunoffError, ValueError):
    """Labelled data cannot be read or does not fit the store, or the results' folder holds those of another run."""


class BudgetError(RunoffError, ValueError):
    """A token budget is too small to hold the prompt's own template."""


class ModelError(RunoffError):
    """A model artifact is missing or unfit for the request."""


class ArtifactDamagedError(ModelError):
    """A file of a model artifact differs from its manifest."""


class BackendError(ModelError):
    """A backend cannot run on this machine, or misses the artifact's golden outputs."""


class StoreError(RunoffError):
    """A store folder cannot be read or written."""


class StoreMissingError(StoreError):
    """There is no store at the given path."""


class StoreDamagedError(StoreError):
    """A file of the store differs from its manifest."""


class StoreMismatchError(StoreError):
    """The store was made by other models or settings than those in use."""


class StoreLockedError(StoreError):
    """Another process is writing to the store."""


class ExportError(RunoffError):
    """A checkpoint cannot be exported within its tolerance."""


class OverloadedError(RunoffError):
    """As many calls wait as may; ``retry_after`` is the number of seconds after which to try again."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeadlineError(RunoffError):
    """A call was not done in the time that it was given."""
