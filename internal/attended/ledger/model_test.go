package ledger

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

//go:generate go test -count=1 -run ^TestModelMoves$ . -write

var write = flag.Bool("write", false, "write docs/model/moves.pml anew")

// movesPML is where the model of docs/model takes its states and moves from.
const movesPML = "../../../docs/model/moves.pml"

// TestModelMoves holds the model to the tables that the code moves by: the file it
// moves by is made from them, and is the same byte for byte.
func TestModelMoves(t *testing.T) {
	want := promela()
	if *write {
		if err := os.WriteFile(movesPML, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(movesPML)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/model/moves.pml isn't made from these tables: go generate ./internal/attended/ledger")
	}
}

// promela writes the tables as macros: a number for each state, can_NOUN_VERB to
// ask, and move_NOUN_VERB to move, which fails where there is no such move. MOVED
// prints a move the first time that the verification makes it, so that a model in
// which something never happens can't pass for one in which it always goes well.
func promela() string {
	var b strings.Builder
	b.WriteString("/* Made from the tables of internal/attended/ledger by go generate there. */\n\n")
	b.WriteString("c_decl { static char moved[99]; }\n")
	number := 0
	for _, n := range nouns {
		fmt.Fprintf(&b, "\n/* %s */\n#define %s_absent 0\n", n.name, n.name)
		for i, s := range statesOf(n) {
			fmt.Fprintf(&b, "#define %s_%s %d\n", n.name, s, i+1)
		}
		for _, v := range verbsOf(n) {
			var may []string
			var lines strings.Builder
			for _, m := range n.moves {
				if m.verb != v {
					continue
				}
				from, to := fmt.Sprintf("%s_%s", n.name, orAbsent(m.from)), fmt.Sprintf("%s_%s", n.name, m.to)
				may = append(may, "is == "+from)
				fmt.Fprintf(&lines, "\t:: is == %s ->\n\t\tis = %s;\n\t\tc_code { if (!moved[%d]) { moved[%d] = 1; printf(\"moved %s %s %s %s\\n\"); } }\n",
					from, to, number, number, n.name, v, orAbsent(m.from), m.to)
				number++
			}
			fmt.Fprintf(&b, "#define can_%s_%s(is) (%s)\n", n.name, v, strings.ReplaceAll(strings.Join(may, " || "), "is ", "(is) "))
			fmt.Fprintf(&b, "inline move_%s_%s(is) {\n\tif\n%s\t:: else -> assert(false) /* no such move */\n\tfi\n}\n", n.name, v, lines.String())
		}
	}
	return b.String()
}

func orAbsent(state string) string {
	if state == "" {
		return "absent"
	}
	return state
}

func statesOf(n *noun) (all []string) {
	seen := map[string]bool{}
	for _, m := range n.moves {
		if !seen[m.to] {
			seen[m.to] = true
			all = append(all, m.to)
		}
	}
	return all
}

func verbsOf(n *noun) (all []verb) {
	seen := map[verb]bool{}
	for _, m := range n.moves {
		if !seen[m.verb] {
			seen[m.verb] = true
			all = append(all, m.verb)
		}
	}
	return all
}
