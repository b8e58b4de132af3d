/** A machine that writes as much as it can. The allowance of an instance is 200 rows here. */
import { signatureOf } from '../../../src/agent/connection/keys.ts';
import { rotationBody } from '../../../src/contract/agent/credential-rotation.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { countEvidenceOfMachine, countRefused, startMachineInNewPool } from '../support/floods.ts';

const writeAdmission: SourceEdit[] = [
  {
    file: 'src/api/limits/quotas/admit-write.ts',
    find: 'writeLimits.reserve(writer, expected)',
    replace: '() => {}',
  },
];

/** More than the allowance plus the overdraft of one request. */
const tooManyRows = 600;
/**
 * For calls that store one row each: more than the allowance, and fewer than the calls would store
 * without the defence.
 */
const oneRowCalls = 500;
const tooManyOneRowCalls = 400;
const longText = 'x'.repeat(400);

export const floodAttacks: Attack[] = [
  {
    name: 'fills the store with facts about itself',
    without: writeAdmission,
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'flood-facts');
      const at = new Date().toISOString();
      const facts = Array.from({ length: 100 }, (_, index) => ({
        ...{ at, layer: 'node', kind: 'disk.read', summary: longText, data: { index, longText } },
      }));
      await countRefused(12, () => machine.call('agent-evidence', { body: { facts } }));
      return (await countEvidenceOfMachine(server, machine)).rows > tooManyRows;
    },
  },
  {
    name: 'fills the store with boot stages',
    without: writeAdmission,
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'flood-boot');
      const stages = (seconds: number) =>
        Array.from({ length: 100 }, (_, index) => ({ name: `stage-${index}`, seconds: seconds + 1 }));
      await countRefused(12, (index) => machine.call('agent-boot', { body: { stages: stages(index) } }));
      return (await countEvidenceOfMachine(server, machine)).rows > tooManyRows;
    },
  },
  {
    name: 'fills the store with prerequisites',
    without: writeAdmission,
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'flood-prerequisites');
      const results = Array.from({ length: 64 }, (_, index) => ({
        name: `check-${index}`,
        ok: true,
        detail: longText,
      }));
      await countRefused(15, () => machine.call('agent-prerequisites', { body: { results } }));
      return (await countEvidenceOfMachine(server, machine)).rows > tooManyRows;
    },
  },
  {
    name: 'fills the store by rotating its credential',
    without: [
      {
        file: 'src/api/limits/quotas/request-rates.ts',
        find: 'if (seconds > 0) refuse(name, caller.kind, seconds);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'flood-rotate');
      await countRefused(oneRowCalls, async () => {
        const { node_instance_id, credential } = machine;
        const signature = signatureOf(machine.private_key, rotationBody({ node_instance_id, credential }));
        const answer = await machine.call('agent-credential-rotate', { body: { signature } });
        machine.credential = (answer.body.credential as string | undefined) ?? machine.credential;
        return answer;
      });
      return (await countEvidenceOfMachine(server, machine)).rows > tooManyOneRowCalls;
    },
  },
  {
    name: 'fills the store by flapping its status',
    without: [
      {
        file: 'src/api/heartbeats/accept-beat.ts',
        find: 'const release = writeLimits.tryReserve(writer, statusReportCost);',
        replace: 'const release = () => {};',
      },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'flood-flaps');
      await countRefused(400, (index) => machine.beat(index % 2 === 0 ? 'degraded' : 'ready'));
      return (await countEvidenceOfMachine(server, machine)).rows > tooManyRows;
    },
  },
  {
    name: 'fills the store by registering repeatedly',
    without: [
      {
        file: 'src/api/routes/agent.ts',
        find: 'await writeLimits.whileReserved(writer, registrationCost, () =>',
        replace: 'await (async (write: () => ReturnType<typeof register>) => write())(() =>',
      },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'flood-registrations');
      await countRefused(oneRowCalls, () => machine.call('agent-register', { body: { version: 'test' } }));
      return (await countEvidenceOfMachine(server, machine)).rows > tooManyOneRowCalls;
    },
  },
];
