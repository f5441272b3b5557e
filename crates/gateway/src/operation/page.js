// The server sends HTML that it has escaped itself.
const events = new EventSource("/events");
const connection = document.getElementById("connection");
for (const part of ["live", "plots"]) {
  const element = document.getElementById(part);
  events.addEventListener(part, (event) => {
    const open = element.querySelector("details")?.open;
    const left = [...element.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    element.innerHTML = event.data;
    connection.textContent = "";
    if (open) element.querySelector("details").open = true;
    element.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = left[i] ?? 0; });
  });
}
events.onerror = () => { connection.textContent = "No connection to the gateway: not live."; };
