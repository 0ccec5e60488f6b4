package tmacc
import ("testing";"os";"encoding/json";"fmt";"github.com/tmacc/tmacc/ir";"github.com/tmacc/tmacc/schedule";"github.com/tmacc/tmacc/lower")
func TestZ(t *testing.T){
 p,_:=ir.Named("w2")
 data,_:=os.ReadFile("/tmp/w/w2.json")
 var tr schedule.Trace
 if err:=json.Unmarshal(data,&tr);err!=nil{t.Fatal(err)}
 k,err:=schedule.Compile(p,tr)
 if err!=nil{t.Fatal(err)}
 fmt.Println(k.Nest)
 f,err:=lower.Vectorize(k.Nest,"matmul")
 if err!=nil{t.Fatal(err)}
 fmt.Println(f)
}
