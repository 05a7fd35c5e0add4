package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"time"
)

// verify runs the worker's verify command on the ledgers, for the report and for a person. Its exit codes say whether the
// books are right.
func verify(ctx context.Context, config *Config) (*VerifyReport, error) {
	document, code, err := runVerify(ctx, config, "json")
	if err != nil {
		return nil, err
	}
	text, codeText, err := runVerify(ctx, config, "text")
	if err != nil {
		return nil, err
	}
	report := &VerifyReport{ExitCode: max(code, codeText), text: strings.TrimRight(string(text), "\n")}
	if json.Valid(document) {
		report.Report = bytes.TrimSpace(document)
	}
	report.OK = report.ExitCode == 0 && report.Report != nil
	return report, nil
}

func runVerify(ctx context.Context, config *Config, output string) (stdout []byte, code int, err error) {
	command := exec.CommandContext(ctx, config.Worker, "verify", "--output", output)
	command.Env = config.Env
	command.Stderr = config.Log
	command.WaitDelay = time.Second
	stdout, err = command.Output()
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, 0, err
	}
	return stdout, command.ProcessState.ExitCode(), nil
}
