//go:build race

package processes

import "time"

func init() { storm = 20 * time.Second }
