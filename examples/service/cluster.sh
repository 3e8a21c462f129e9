start() { for n; do # start 1 2: starts n1 and n2, with the data of n1 in n1 and its log in n1.log
	./scores -id n$n -dir n$n -raft 127.0.0.1:700$n -http 127.0.0.1:800$n -admin 127.0.0.1:900$n $certs \
		-seeds 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 >>n$n.log 2>&1 &
	echo $! >n$n.pid
done; }
ready() { for n; do # ready 1 2: waits until n1 and n2 serve, or says why they do not
	for try in $(seq 15); do curl -fs 127.0.0.1:900$n/readyz >/dev/null && echo n$n is ready && continue 2; sleep 0.2; done
	curl -s 127.0.0.1:900$n/readyz || tail -n 2 n$n.log
done; }
stop() { for n; do kill $(cat n$n.pid) && wait $(cat n$n.pid); done; } # stop 1 2: ends n1, and then n2, in order
