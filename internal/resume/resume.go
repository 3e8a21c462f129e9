// Package resume keeps in a file how far a campaign has come, so that the same command goes on from there after it was
// interrupted or killed.
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

// File is the progress of one campaign. Its methods may be called on nil, which keeps nothing.
type File struct {
	path string
	id   identity
}

// identity tells campaigns apart: results of different ones must not be mixed.
type identity struct {
	Campaign string `json:"campaign"` // the command, with what determines its results
	Build    string `json:"build"`    // a hash of the program
}

// contents is what the file holds, as JSON.
type contents struct {
	identity
	State json.RawMessage `json:"state"`
}

// OtherCampaignError reports a file that holds the progress of another campaign, or of another build of the program.
// Resume that one, name another file, or remove this one.
type OtherCampaignError struct {
	Path         string
	Has, HasMade string // the campaign in the file, and the build that began it
	Now, Build   string // this campaign, and this build
}

func (e *OtherCampaignError) Error() string {
	return fmt.Sprintf("%s holds the progress of %q by build %s, and this is %q by build %s: name another file, or remove it to begin anew",
		e.Path, e.Has, e.HasMade, e.Now, e.Build)
}

// Open reads the file into the state, or begins it with this state if there is none. Without a path there is no file, and
// Open returns nil. The campaign is the command with everything that determines its results. If the file belongs to
// another one, the error is an *OtherCampaignError.
func Open(path, campaign string, state any) (*File, error) {
	if path == "" {
		return nil, nil
	}
	build, err := buildHash()
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

// Save replaces the file. If the process or the machine ends meanwhile, it holds either the earlier state or this one.
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

// buildHash identifies this program, whatever it was built from. A commit would not do: go run records none, and trees
// with changes differ.
func buildHash() (string, error) {
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
