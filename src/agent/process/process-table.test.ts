/** Tests the size of pages, by which resident memory is counted. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { endianness } from 'node:os';
import { expect, test } from 'vitest';
import { pageBytesIn, readProcess } from './process-table.ts';

function auxiliaryVector(...entries: [key: bigint, value: bigint][]): Buffer {
  const words = entries.flat();
  const bytes = Buffer.alloc(words.length * 8);
  for (const [place, word] of words.entries())
    if (endianness() === 'LE') bytes.writeBigUInt64LE(word, place * 8);
    else bytes.writeBigUInt64BE(word, place * 8);
  return bytes;
}

test('reads the page size that the kernel passes to each process', () => {
  expect(pageBytesIn(auxiliaryVector([33n, 6n], [6n, 16_384n], [0n, 0n]))).toBe(16_384);
  expect(pageBytesIn(auxiliaryVector([6n, 65_536n], [0n, 0n]))).toBe(65_536);
  expect(pageBytesIn(auxiliaryVector([33n, 6n], [0n, 0n])), 'without an entry').toBe(4_096);
  expect(pageBytesIn(Buffer.alloc(5)), 'cut off').toBe(4_096);
});

test.runIf(process.platform === 'linux')('counts the memory of this process as the kernel does', () => {
  const pageBytes = Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' }));
  expect(pageBytesIn(readFileSync('/proc/self/auxv'))).toBe(pageBytes);
  const kilobytes = Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
  const share = (readProcess(process.pid)?.rss_bytes ?? 0) / (kilobytes * 1024);
  expect(share).toBeGreaterThan(0.5);
  expect(share).toBeLessThan(2);
});
