// The script of the upload frame: it sends one file to the address that it is told, and says how
// that goes. It has no credentials, and its page's policy lets it reach one server.

window.addEventListener("message", (e: MessageEvent<{ url: string; headers: Record<string, string>; content: ArrayBuffer }>) => {
  const port = e.ports[0];
  if (e.source !== window.parent || !port) return;
  const { url, headers, content } = e.data;
  const request = new XMLHttpRequest();
  request.open("PUT", url);
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.upload.onprogress = (p) => port.postMessage({ sent: p.loaded });
  request.onload = () => port.postMessage({ done: request.status });
  request.onerror = () => port.postMessage({ failed: true });
  request.send(content);
}, { once: true });
