//go:build !linux

package main

func inside(string) error { return nil } // Main does not call it
