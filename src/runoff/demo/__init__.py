"""The sample corpus that ships with the package, and the tour that `runoff demo` gives with it."""
