package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	historiesDir = "histories"
	mustFailDir  = "histories/must_fail"
)

// recordedBy is who made a history that was recorded, whoever did.
const recordedBy = "recorder"

// encodeHistory writes a history as JSON that says nothing of the machine on which it was made, nor when: names, run IDs and
// times are replaced, each always by the same.
func encodeHistory(t *testing.T, events []*history.HistoryEvent) []byte {
	t.Helper()
	raw, err := protojson.Marshal(&history.History{Events: events})
	require.NoError(t, err)
	var document any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&document))
	s := scrubber{ids: make(map[string]string)}
	s.begun = events[0].GetEventTime().AsTime()
	document = s.scrub("", document)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	require.NoError(t, encoder.Encode(document))
	return out.Bytes()
}

type scrubber struct {
	ids   map[string]string
	begun time.Time
}

// recordedAt is when every recorded history begins.
var recordedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var uuidShape = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// scrub replaces what is of the machine in a part of a document that has a name.
func (s *scrubber) scrub(name string, part any) any {
	switch part := part.(type) {
	case map[string]any:
		if part["kind"] == "TASK_QUEUE_KIND_STICKY" {
			part["name"] = recordedBy
		}
		for key, value := range part {
			part[key] = s.scrub(key, value)
		}
		return part
	case []any:
		for i := range part {
			part[i] = s.scrub(name, part[i])
		}
		return part
	case string:
		return s.scrubText(name, part)
	default:
		return part
	}
}

func (s *scrubber) scrubText(name, text string) string {
	switch name {
	case "identity", "binaryChecksum", "buildId":
		return recordedBy
	case "requestId":
		return "00000000-0000-4000-8000-000000000000"
	case "stackTrace":
		return ""
	case "namespace", "parentWorkflowNamespace":
		return "default"
	case "taskId", "historySizeBytes":
		return "0"
	}
	if moment, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return recordedAt.Add(moment.Sub(s.begun)).Format(time.RFC3339Nano)
	}
	return uuidShape.ReplaceAllStringFunc(text, func(id string) string {
		if s.ids[id] == "" {
			s.ids[id] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.ids)+1)
		}
		return s.ids[id]
	})
}

// histories are the recorded histories of a folder, by their names.
func histories(t *testing.T, dir string) map[string]*history.History {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, "there are no histories in %s", dir)
	all := make(map[string]*history.History)
	for _, path := range paths {
		file, err := os.Open(path)
		require.NoError(t, err)
		recorded, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
		require.NoError(t, err, path)
		require.NoError(t, file.Close())
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = recorded
	}
	return all
}

// Recorded histories say nothing of the machine that they were made on.
func TestHistoriesAreClean(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`/(root|home|tmp|work|usr|go)/|goroutine |\.go:[0-9]|127\.0\.0\.1|localhost|payonce-(test|worker)`)
	for _, dir := range []string{historiesDir, mustFailDir} {
		for name, recorded := range histories(t, dir) {
			text, err := protojson.Marshal(recorded)
			require.NoError(t, err)
			require.Empty(t, forbidden.FindString(string(text)), name)
			for _, event := range recorded.GetEvents() {
				for _, payload := range payloads(event.ProtoReflect()) {
					require.Empty(t, forbidden.FindString(string(payload.GetData())), "%s, event %d", name, event.GetEventId())
				}
			}
			for _, id := range regexp.MustCompile(`"identity": ?"([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
				require.Equal(t, recordedBy, id[1], name)
			}
		}
	}
}
