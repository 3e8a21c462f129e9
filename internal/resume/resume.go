// Package resume stores the progress of a campaign in a file. If the campaign is interrupted or killed, the same command
// continues from that progress.
package resume

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// File stores the progress of one campaign. A nil File stores nothing.
type File struct {
	path string
	id   identity
}

// identity distinguishes campaigns, because the results of different campaigns must not be mixed.
type identity struct {
	Campaign string `json:"campaign"` // the command with everything that determines its results
	Build    string `json:"build"`    // hash of the program
}

// contents is what the file holds, as JSON.
type contents struct {
	identity
	State json.RawMessage `json:"state"`
}

// OtherCampaignError reports a file that holds the progress of another campaign, or of another build of the program. Resume
// the other campaign, name another file, or remove this file.
type OtherCampaignError struct {
	Path         string
	Has, HasMade string // the campaign in the file, and the build that began it
	Now, Build   string // this campaign, and this build
}

func (e *OtherCampaignError) Error() string {
	return fmt.Sprintf("%s holds the progress of %q by build %s, and this is %q by build %s: name another file, or remove it to start over",
		e.Path, e.Has, e.HasMade, e.Now, e.Build)
}

// Open reads the state from the file. If there is no file, Open creates one with the given state. If path is empty, Open
// returns nil. campaign is the command with everything that determines its results. If the file belongs to another campaign,
// the error is an *OtherCampaignError.
func Open(path, campaign string, state any) (*File, error) {
	if path == "" {
		return nil, nil
	}
	build, err := BuildHash()
	if err != nil {
		return nil, err
	}
	f := &File{path, identity{campaign, build}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, f.Save(state)
	}
	if err != nil {
		return nil, err
	}
	var c contents
	err = json.Unmarshal(text, &c)
	if err == nil && c.identity != f.id {
		return nil, &OtherCampaignError{path, c.Campaign, c.Build, f.id.Campaign, f.id.Build}
	}
	if err == nil {
		err = json.Unmarshal(c.State, state)
	}
	if err != nil {
		return nil, fmt.Errorf("%s holds no progress of a campaign (%w): name another file, or remove it", path, err)
	}
	return f, nil
}

// Save replaces the file. If the process or the machine ends during the call, the file holds either the earlier state or the
// given state.
func (f *File) Save(state any) error {
	if f == nil {
		return nil
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if text, err = json.Marshal(contents{f.id, text}); err != nil {
		return err
	}
	part, err := os.Create(f.path + ".new")
	if err != nil {
		return err
	}
	if _, err = part.Write(text); err == nil {
		err = part.Sync()
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	return os.Rename(f.path+".new", f.path)
}

// BuildHash returns a hash of this program. A commit would not identify the program: go run records no commit, and
// uncommitted changes differ between builds.
func BuildHash() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer program.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, program); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:6]), nil
}
