// A module of its own, so that nothing here is part of the library's.
module github.com/coxswain/raft/compat/previous

go 1.25.0
