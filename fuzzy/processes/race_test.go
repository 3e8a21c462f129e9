//go:build race

package chaos

import "time"

func init() { storm = 20 * time.Second }
