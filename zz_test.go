package tmacc
import ("testing";"os";"context";"encoding/json";"fmt";"github.com/tmacc/tmacc/ir";"github.com/tmacc/tmacc/schedule";"github.com/tmacc/tmacc/lower";"github.com/tmacc/tmacc/lower/spirv")
func TestZ(t *testing.T){
 p,_:=ir.Named("w2")
 data,_:=os.ReadFile("/tmp/w/w2.json")
 var tr schedule.Trace
 if err:=json.Unmarshal(data,&tr);err!=nil{t.Fatal(err)}
 k,err:=schedule.Compile(p,tr)
 if err!=nil{t.Fatal(err)}
 f,err:=lower.Vectorize(k.Nest,"matmul")
 if err!=nil{t.Fatal(err)}
 for _,tg:=range spirv.Targets(){
 s,err:=lower.Select(context.Background(),tg,f)
 if err!=nil{t.Fatal(err)}
 fmt.Println(s.Func)
 sh,err:=tg.Print(s,spirv.Controls{RoundToEven:true,Denormals:true,NotNumbers:true})
 if err!=nil{t.Fatal(err)}
 os.WriteFile("/tmp/w/w2-"+tg.Machine().ShortName()+".spv",sh.Binary(),0o644)
 os.WriteFile("/tmp/w/w2-"+tg.Machine().ShortName()+".spvasm",[]byte(sh.Text()),0o644)
 fmt.Println(sh.Params,sh.Buffers,sh.Lanes,sh.Grid)
 }
}
