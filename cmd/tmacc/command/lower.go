package command

import (
	"fmt"
	"go/token"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/build"
)

func (c *cli) lower() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lower FILE.vir", Args: between(1, 1),
		Short: "compile vector IR to assembly",
		Long: `Compile a file of vector IR (docs/vir.md; - is standard input) to Go assembly. The
function takes a pointer to consecutive 8-byte words, its parameters; the Go
declaration stands at the end as a comment.

With -target spirv it is a compute shader for Vulkan: text for spirv-as, or with
-o FILE.spv the module itself.`,
		Example: `  tmacc lower dot.vir -target avx512vbmi -o dot_amd64.s
  tmacc lower dot.vir -target spirv -o dot.spv`,
	}
	f := cmd.Flags()
	target := f.String("target", "host", "target, see tmacc targets")
	var core string
	oneCoreVar(f, &core)
	out := f.StringP("output", "o", "", "`file` to write instead of standard output")
	pkg := f.String("package", "kernels", "name of the Go package in the assembly's comment")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if !token.IsIdentifier(*pkg) {
			return fmt.Errorf("-package %s: want the name of a Go package", quotedIfOdd(*pkg))
		}
		if _, ok := spirv.ByName(*target); ok && core != "" {
			return fmt.Errorf("-core %s: a shader of vector IR is the same for every device: leave it out with -target %s", core, *target)
		}
		t, err := c.selector(*target, core)
		if err != nil {
			return err
		}
		text, err := c.inputs().Text(args[0])
		if err != nil {
			return err
		}
		var asm string
		for _, s := range build.TextStages(string(text), *pkg, t) {
			if s.Err != nil {
				return fmt.Errorf("%s: %w", args[0], s.Err)
			}
			if sh, ok := s.Value.(*spirv.Shader); ok && filepath.Ext(*out) == ".spv" {
				return writeFile(*out, sh.Binary())
			}
			if s.Name == build.AssemblyStage || s.Name == build.GoStage {
				asm += s.Text
			}
		}
		if *out == "" {
			_, err = fmt.Fprint(c.out, asm)
			return err
		}
		return writeFile(*out, []byte(asm))
	}
	return cmd
}

// selector is the target that flags name: of shaders, or of a CPU.
func (c *cli) selector(target, core string) (targets.Selector, error) {
	t, ok := spirv.ByName(target)
	if !ok {
		return c.finder().One(target, core)
	}
	chosen, err := c.chosenSpeeds(words(core))
	return withSpeeds([]spirv.Target{t}, chosen, t.Speeds())[0], err
}

// words is a list of the word, or of none.
func words(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}

// writeFile replaces a file at once, so that nobody sees a part of it.
func writeFile(path string, data []byte) error { return plain(gen.WriteFile(path, data)) }
