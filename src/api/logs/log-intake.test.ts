import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { createLogIntake } from './log-intake.ts';

const megabyte = 1024 * 1024;

function batchOf(node_instance_id: string, bytes: number | null) {
  const headers = bytes === null ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(bytes) };
  const raw = new EventEmitter();
  return { request: { headers, agent_session: { node_instance_id } } as never, reply: { raw } as never, raw };
}

const slowDown = expect.objectContaining({ code: 'logs_slow_down' });

test('limits the bytes held, and frees room when a response closes', () => {
  const intake = createLogIntake(megabyte);
  const open = [1, 2, 3, 4].map((i) => batchOf(`inst_${i}`, megabyte / 4));
  for (const { request, reply } of open) intake.admit(request, reply, megabyte);
  const fifth = batchOf('inst_5', 1);
  expect(() => intake.admit(fifth.request, fifth.reply, megabyte)).toThrow(slowDown);
  expect(intake.figures()).toEqual({ held_bytes: megabyte, refused: 1 });
  open[0]?.raw.emit('close');
  intake.admit(fifth.request, fifth.reply, megabyte);
  expect(intake.figures().held_bytes).toBe((megabyte * 3) / 4 + 1);
});

test('counts a chunked body as the longest allowed, and admits it if nothing else is held', () => {
  const intake = createLogIntake(megabyte);
  const chunked = batchOf('inst_1', null);
  intake.admit(chunked.request, chunked.reply, 4 * megabyte);
  expect(intake.figures().held_bytes).toBe(4 * megabyte);
  const next = batchOf('inst_2', 1);
  expect(() => intake.admit(next.request, next.reply, megabyte)).toThrow(slowDown);
});

test('admits two batches per node at a time', () => {
  const intake = createLogIntake(megabyte);
  const [first, second, third] = [1, 2, 3].map(() => batchOf('inst_1', 1));
  if (!first || !second || !third) throw new Error('expected three batches');
  intake.admit(first.request, first.reply, megabyte);
  intake.admit(second.request, second.reply, megabyte);
  expect(() => intake.admit(third.request, third.reply, megabyte)).toThrow(slowDown);
  first.raw.emit('close');
  intake.admit(third.request, third.reply, megabyte);
});
