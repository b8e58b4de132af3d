/** Boot reports that are costly for the server. */
import { startMachine } from '../../api/support/machine.ts';
import type { Attack } from '../support/attack.ts';
import { cpuSpentOn } from '../support/server-cpu.ts';
import { createPoolToJoin } from './pool.ts';

const maxCpuSeconds = 1;
const repeats = 3;
const openStages = 'Starting stage: a\n'.repeat(7_000);
const finishedStages = 'Finished stage: (b) 0.1 seconds\n'.repeat(3_800);

export const bootReportAttacks: Attack[] = [
  {
    name: 'keeps the server busy with a boot report of stages that never end',
    without: [
      {
        file: 'src/contract/agent/boot-report/stages.ts',
        find: 'const maxOpen = 64;',
        replace: 'const maxOpen = 1e9;',
      },
    ],
    async succeeds(server) {
      const machine = await startMachine(server.url, await createPoolToJoin(server, 'boot-report'));
      const report = { raw: openStages + finishedStages, headers: { 'content-type': 'text/plain' } };
      const cpuSeconds = await cpuSpentOn(server.pid, async () => {
        for (let sent = 0; sent < repeats; sent++) await machine.call('agent-boot', {}, report);
      });
      return cpuSeconds > maxCpuSeconds;
    },
  },
];
