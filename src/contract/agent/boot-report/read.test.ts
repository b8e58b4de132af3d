import { describe, expect, test } from 'vitest';
import { ApiProblem } from '../../errors/errors.ts';
import { readBootReport } from './read.ts';

const refusalOf = (text: string): string => {
  try {
    readBootReport(text);
  } catch (error) {
    if (error instanceof ApiProblem && error.code === 'invalid_request') return error.message;
    throw error;
  }
  throw new Error('the report was accepted');
};

describe('cloud-init analyze blame', () => {
  const blame = `-- Boot Record 01 --
     01.20300s (init-network/config-growpart)
     00.40100s (init-local/search-NoCloud)
     00.00200s (modules-final/config-scripts-user)

1 boot records analyzed
`;

  test('names each module, the stage it ran in, and how long it took', () => {
    expect(readBootReport(blame)).toEqual({
      stages: [
        { name: 'config-growpart', parent: 'init-network', seconds: 1.203 },
        { name: 'search-NoCloud', parent: 'init-local', seconds: 0.401 },
        { name: 'config-scripts-user', parent: 'modules-final', seconds: 0.002 },
      ],
    });
  });

  test('accepts other line endings, and a missing first or last line', () => {
    const read = readBootReport(blame);
    expect(readBootReport(blame.replaceAll('\n', '\r\n'))).toEqual(read);
    expect(readBootReport(blame.split('\n').slice(1, 4).join('\n'))).toEqual(read);
  });

  test('uses the last of several boots', () => {
    const second = '-- Boot Record 02 --\n     09.00000s (init-local/check-cache)\n\n2 boot records analyzed\n';
    expect(readBootReport(blame + second).stages).toEqual([{ name: 'check-cache', parent: 'init-local', seconds: 9 }]);
  });

  test('merges repeated runs into one stage', () => {
    const twice = '     00.10000s (azure-ds/crawl)\n     00.20000s (azure-ds/crawl)\n     00.30000s (init-local)\n';
    expect(readBootReport(twice).stages).toEqual([
      { name: 'crawl', parent: 'azure-ds', seconds: 0.3 },
      { name: 'init-local', seconds: 0.3 },
    ]);
  });
});

describe('cloud-init analyze show', () => {
  const show = `-- Boot Record 01 --
The total time elapsed since completing an event is printed after the "@" character.
The time the event takes is printed after the "+" character.

Starting stage: init-local
|\`->no cache found @00.01700s +00.00200s
Starting stage: init-local/search-Azure
| \`->found local data @00.11000s +00.09000s
Finished stage: (init-local/search-Azure) 00.10000 seconds

Finished stage: (init-local) 00.94200 seconds

Starting stage: init-network
|\`->config-growpart ran successfully and took 1.203 seconds @04.79500s +01.20300s
|\`->config-mounts previously ran @06.00000s +00.00100s
Finished stage: (init-network) 02.72100 seconds

Total Time: 3.66300 seconds

1 boot records analyzed
`;

  test('names stages, their parts, and the start of each within the boot', () => {
    expect(readBootReport(show).stages).toEqual([
      { name: 'no cache found', parent: 'init-local', seconds: 0.002, starts_seconds: 0.017 },
      { name: 'found local data', parent: 'search-Azure', seconds: 0.09, starts_seconds: 0.11 },
      { name: 'search-Azure', parent: 'init-local', seconds: 0.1, starts_seconds: 0.11 },
      { name: 'init-local', seconds: 0.942, starts_seconds: 0.017 },
      { name: 'config-growpart', parent: 'init-network', seconds: 1.203, starts_seconds: 4.795 },
      { name: 'config-mounts', parent: 'init-network', seconds: 0.001, starts_seconds: 6 },
      { name: 'init-network', seconds: 2.721, starts_seconds: 4.795 },
    ]);
  });

  test('uses the first start of repeated runs, and drops a start before the boot', () => {
    const show = '|`->a @02.00000s +01.00000s\n|`->a @09.00000s +01.00000s\n|`->b @-03.00000s +01.00000s';
    expect(readBootReport(show).stages).toEqual([
      { name: 'a', seconds: 2, starts_seconds: 2 },
      { name: 'b', seconds: 1 },
    ]);
  });

  test('truncates long names', () => {
    const [stage] = readBootReport(`|\`->${'a'.repeat(500)} @00.1s +00.00100s`).stages;
    expect(stage?.name).toHaveLength(128);
  });
});

describe('cloud-init analyze dump', () => {
  const event = (event_type: string, name: string, timestamp: number) => ({ event_type, name, timestamp });

  test('omits a stage that has no start or ended before it started', () => {
    const events = [
      event('start', 'init-local', 100),
      event('finish', 'init-network', 101),
      event('start', 'init-local/a', 102),
      event('finish', 'init-local/a', 90),
      event('finish', 'init-local', 103),
    ];
    expect(readBootReport(JSON.stringify(events)).stages).toEqual([
      { name: 'init-local', seconds: 3, starts_seconds: 0 },
    ]);
  });

  test.each([
    ['no JSON', '[{"name":', 'not JSON'],
    ['an event without a time', '[{"name":"a","event_type":"start"}]', 'Event 1'],
    ['null', '[null]', 'Event 1'],
    ['too many stages at once', JSON.stringify(Array(65).fill(event('start', 'a', 1))), 'More than 64'],
    ['no event', '[]', 'no boot stage'],
  ])('refuses %s', (_, text, message) => expect(refusalOf(text)).toContain(message));
});

describe('cloud-init analyze boot', () => {
  const at = (second: number) => `2026-11-17 23:38:${second}.000000`;

  test('omits stages that are negative because the clock was set back', () => {
    const text = `-- Most Recent Boot Record --
    Kernel Started at: ${at(20)}
    Kernel ended boot at: ${at(22)}
    Kernel time to boot (seconds): 2.0
    Cloud-init activated by systemd at: ${at(21)}
    Time between Kernel end boot and Cloud-init activation (seconds): -1.0
    Cloud-init start: ${at(24)}
`;
    expect(readBootReport(text).stages).toEqual([
      { name: 'kernel', seconds: 2, starts_seconds: 0 },
      { name: 'cloud-init-start', seconds: 3, starts_seconds: 1 },
    ]);
  });
});

test('omits the stages on both sides of an invalid date', () => {
  const text = `-- Most Recent Boot Record --
    Kernel Started at: 2026-11-17 23:38:20
    Kernel ended boot at: 2026-11-17 23:38:22
    Cloud-init activated by systemd at: 2026-13-17 23:38:23
    Cloud-init start: 2026-11-17 23:38:24
`;
  expect(readBootReport(text).stages).toEqual([{ name: 'kernel', seconds: 2, starts_seconds: 0 }]);
});

describe('text that is not from cloud-init', () => {
  test.each([
    ['a line of prose', '-- Boot Record 01 --\n     00.10000s (a/b)\nKernel panic\n', 'Line 3', 'Kernel panic'],
    ['a stage without a time', '     soon (init-local/check-cache)', 'Line 1', 'soon'],
    ['a time without a stage', '     00.10000s', 'Line 1', '00.10000s'],
    ['JSON', '{"stages":[]}', 'Line 1', 'stages'],
    ['a long line', 'x'.repeat(10_000), 'Line 1', 'xxx'],
  ])('refuses %s and names the line', (_, text, line, shown) => {
    const refusal = refusalOf(text);
    expect(refusal).toContain(line);
    expect(refusal).toContain(shown);
    expect(refusal.length).toBeLessThan(200);
  });

  test.each(['', '\n\n', '-- Boot Record 01 --\n\n1 boot records analyzed\n'])(
    'refuses an empty report (%j)',
    (text) => {
      expect(refusalOf(text)).toContain('no boot stage');
    },
  );
});
