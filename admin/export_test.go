package admin

import (
	"net/http"
	"time"
)

// SetStreamTimeout replaces StreamTimeout.
func SetStreamTimeout(h http.Handler, d time.Duration) { h.(*handler).streamTimeout = d }
