package ledger_test

import (
	"testing"

	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, nil) }
