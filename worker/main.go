// Worker runs payonce's workflows and the activities of the ledgers that it is given, brings their databases' tables up to
// date, and checks their books.
package main

import (
	"context"
	"os"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
