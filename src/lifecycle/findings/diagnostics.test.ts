import { expect, it } from 'vitest';
import { formatSize, readDiagnostics } from './diagnostics.ts';

it('reads diagnostics of an agent and a provider', () => {
  const data = {
    host: { name: 'rack-7', uptime_seconds: 60, load_average: [1, 2, 3] },
    processes: [{ pid: 7, ppid: 1, group: 7, state: 'S', rss_bytes: 2048, command: 'sleep 1' }],
    boot_stages: [{ name: 'network', seconds: 2 }],
    lines: [{ seq: 1, at: '2026-01-01T00:00:00Z', stream: 'stdout', line: 'up' }],
    attachments: [{ name: 'console', text: 'panic' }],
  };
  expect(readDiagnostics(data)).toEqual({
    ...data,
    processes: [{ pid: 7, state: 'S', rss_bytes: 2048, command: 'sleep 1' }],
    lines: [{ at: '2026-01-01T00:00:00Z', stream: 'stdout', line: 'up' }],
  });
});

it('reads spooled lines that were never sent', () => {
  const spooledLine = (line: string) => JSON.stringify({ seq: 1, at: '2026-01-01T00:00:00Z', stream: 'setup', line });
  const text = ['cut off"}', spooledLine('one'), spooledLine('two'), '', '{"no":"line"}', '7'].join('\n');
  const { lines, attachments } = readDiagnostics({ attachments: [{ name: 'node.log', text }] });
  expect(lines.map(({ stream, line }) => `${stream} ${line}`)).toEqual(['setup one', 'setup two']);
  expect(attachments).toEqual([]);
});

it.each([{}, { host: null, processes: 'many', lines: [1, null], boot_stages: [{ seconds: 1 }], attachments: {} }])(
  'drops entries with an unexpected shape: %j',
  (data) => {
    expect(readDiagnostics(data)).toEqual({ host: null, processes: [], boot_stages: [], lines: [], attachments: [] });
  },
);

it('formats sizes', () => {
  expect([0, 900, 2048, 5 * 1024 ** 2, 3 * 1024 ** 3].map(formatSize)).toEqual([
    '0 B',
    '900 B',
    '2 KiB',
    '5 MiB',
    '3 GiB',
  ]);
});
