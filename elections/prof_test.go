package elections
import ("testing";"context")
func BenchmarkPlan(b *testing.B){ for b.Loop() {
 p:=Plan{Algorithms:algorithms,Scenarios:scenarios,Sizes:[]int{3,5,9,25},First:1,Seeds:10,Workers:1,Setup:Setup{Times:Scaled()}}
 if _,err:=p.Compare(context.Background());err!=nil{b.Fatal(err)}}}
