//go:build mutant

package ledger

import (
	"os"
	"strconv"
)

func init() { mutant, _ = strconv.Atoi(os.Getenv("CHAPERONE_MUTANT")) }
