//go:build !linux

package main

import "io"

func apart(io.Writer) error { return &impossibleError{"it needs Linux"} }

func inside(string) error { return &impossibleError{"it needs Linux"} }
