/** A WebSocket without a network. Records the frames sent to it and how the server closed it. */
import { EventEmitter } from 'node:events';

export class FakeSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  sent: Record<string, unknown>[] = [];
  closed: [number, string] | null = null;
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  pongs: string[] = [];
  private unflushed: (() => void)[] = [];
  pong(data: Buffer, _mask: boolean, flushed: () => void) {
    this.pongs.push(String(data));
    this.unflushed.push(flushed);
  }
  flushPongs() {
    for (const flushed of this.unflushed.splice(0)) flushed();
  }
  close(code: number, reason: string) {
    this.closed = [code, reason];
  }
  terminate() {
    this.readyState = 3;
    this.emit('close', 1006, Buffer.alloc(0));
  }
  receive(frame: unknown) {
    this.emit('message', Buffer.from(JSON.stringify(frame)), false);
  }
}
