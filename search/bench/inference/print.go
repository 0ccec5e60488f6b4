package inference

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Outputs are the names of the formats that Print writes.
var Outputs = []string{"md", "json", "csv"}

// Print writes records as a table in Markdown, as a JSON array, or as CSV with the fields of the JSON objects.
func Print(w io.Writer, output string, records []Record) error {
	switch output {
	case "md":
		return printTable(w, records)
	case "json":
		return JSON(w, records)
	case "csv":
		return CSV(w, records)
	}
	return fmt.Errorf("unknown output %q: have %s", output, strings.Join(Outputs, ", "))
}

// JSON writes records as an indented JSON array.
func JSON[R any](w io.Writer, records []R) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(records)
}

// columns are the columns of the table. The first ones are those that llama-bench prints.
var columns = []struct {
	head string
	cell func(r Record) string
}{
	{"model", func(r Record) string { return r.Kind }},
	{"size", func(r Record) string { return binarySize(r.Size) }},
	{"params", func(r Record) string { return parameters(r.Parameters) }},
	{"threads", func(r Record) string { return fmt.Sprint(r.Threads) }},
	{"test", func(r Record) string { return r.Test().Name() }},
	{"t/s", func(r Record) string { return fmt.Sprintf("%.2f ± %.2f", r.MeanTS, r.DeviantTS) }},
	{"GB/s", func(r Record) string { return figure("%.1f", r.WeightGBS) }},
	{"of read", func(r Record) string { return figure("%.0f %%", 100*r.ReadShare) }},
	{"GMAC/s", func(r Record) string { return figure("%.0f", r.GMACS) }},
	{"of int8", func(r Record) string { return figure("%.0f %%", 100*r.DotShare) }},
	{"times products alone", func(r Record) string { return figure("%.3f", r.Ratio) }},
	{"ms/token", func(r Record) string { return figure("%.3f", r.MedianNs/1e6) }},
	{"products", func(r Record) string { return figure("%.3f", r.PartProducts/1e6) }},
	{"attention", func(r Record) string { return figure("%.3f", r.PartAttention/1e6) }},
	{"rest", func(r Record) string { return figure("%.3f", r.PartRest/1e6) }},
	{"head", func(r Record) string { return figure("%.3f", r.PartHead/1e6) }},
}

// parameters prints a number of weights in millions or billions, as llama-bench does.
func parameters(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f B", float64(n)/1e9)
}

// figure prints a number, and nothing for 0.
func figure(format string, x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// binarySize prints a number of bytes as llama-bench does.
func binarySize(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
}

// printTable writes the table. Below it are the machine's own rates.
func printTable(w io.Writer, records []Record) error {
	rows := [][]string{{}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.head)
	}
	for _, r := range records {
		var row []string
		for _, c := range columns {
			row = append(row, c.cell(r))
		}
		rows = append(rows, row)
	}
	if err := Table(w, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, ceilings(records))
	return err
}

// Table writes rows as a table in Markdown. The first row has the heads of the columns, which are numbers except the first one.
func Table(w io.Writer, rows [][]string) error {
	text := ""
	for i, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
		if i == 0 {
			text += "| ---" + strings.Repeat(" | ---:", len(row)-1) + " |\n"
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// ceilings says what the machine did at the median beside the tests, a line for each number of threads.
func ceilings(records []Record) string {
	var read, dot = map[int][]float64{}, map[int][]float64{}
	var order []int
	for _, r := range records {
		if read[r.Threads] == nil {
			order = append(order, r.Threads)
		}
		read[r.Threads] = append(read[r.Threads], r.ReadGBS)
		if r.DotGMACS > 0 {
			dot[r.Threads] = append(dot[r.Threads], r.DotGMACS)
		}
	}
	text := "\n"
	for _, n := range order {
		text += fmt.Sprintf("This machine beside it, threads %d: reads %.1f GB/s", n, Median(read[n]))
		if len(dot[n]) > 0 {
			text += fmt.Sprintf(", multiplies %.0f GMAC/s of int8", Median(dot[n]))
		}
		text += " (medians)\n"
	}
	return text
}

// CSV writes a line of names, then a line for each record, which is a struct. Fields of structs in it have the name of the struct
// before their own, unless it is embedded. Lists are left out.
func CSV[R any](w io.Writer, records []R) error {
	out := csv.NewWriter(w)
	fields := csvFields(reflect.TypeFor[R](), "", nil)
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	out.Write(names)
	for _, r := range records {
		var line []string
		for _, f := range fields {
			line = append(line, fmt.Sprint(reflect.ValueOf(r).FieldByIndex(f.index)))
		}
		out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// csvField is a column: its name and the place of its field.
type csvField struct {
	name  string
	index []int
}

// csvFields lists the fields of a struct and of the structs in it, except lists. Names begin with a prefix.
func csvFields(t reflect.Type, prefix string, index []int) (all []csvField) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), index...), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type.Kind() == reflect.Struct && f.Anonymous:
			all = append(all, csvFields(f.Type, prefix, at)...)
		case f.Type.Kind() == reflect.Struct:
			all = append(all, csvFields(f.Type, prefix+name+"_", at)...)
		case f.Type.Kind() != reflect.Slice:
			all = append(all, csvField{prefix + name, at})
		}
	}
	return all
}
