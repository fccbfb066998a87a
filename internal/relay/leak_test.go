package relay_test

import (
	"os"
	"testing"

	"chaperone/internal/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }
