/**
 * A provider that keeps the truth: which machines were ever launched and which exist. Its driver is idempotent, as every
 * driver owes; what it may not see is written down as it happens: an instance launched again after it was gone, or two
 * machines of one node at a time. Nothing runs; the agents of these machines are played by agents.ts.
 */
import type { NodeInstanceId } from '../../../src/base/ids.ts';
import type { Driver, DriverOutcome, DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { simulatedDriver } from '../../scenarios/support/simulated-driver.ts';

/**
 * - well: comes up and does what it is asked
 * - mute: comes up, but nobody ever hears of its agent
 * - crashes: ends while it comes up
 * - refused: the provider refuses to make it
 * - dirty: cannot be cleaned until somebody has mended it
 */
export type Character = 'well' | 'mute' | 'crashes' | 'refused' | 'dirty';

export interface Machine {
  pool: string;
  node_id: string;
  node_instance_id: NodeInstanceId;
  character: Character;
  state: 'creating' | 'running' | 'exited' | 'deleting' | 'gone';
  enrollment_token: string;
  launches: number;
}

export interface Upstream {
  driver: Driver;
  machines: Map<NodeInstanceId, Machine>;
  /** What should never have been seen, by pool. */
  mistakes: { pool: string; what: string }[];
  /** Of the machines of a pool, in the order in which they are launched; after the last one all are well. */
  characters: Map<string, Character[]>;
  exists(machine: Machine): boolean;
}

const waits = (message: string): DriverOutcome => ({ outcome: 'wait', retry_seconds: 1, message });
const done = (message: string): DriverOutcome => ({ outcome: 'done', message });

export function createUpstream(): Upstream {
  const machines: Upstream['machines'] = new Map();
  const mistakes: Upstream['mistakes'] = [];
  const characters: Upstream['characters'] = new Map();
  const exists = ({ state }: Machine) => state !== 'gone';
  const of = ({ node_instance_id }: DriverTarget) => machines.get(node_instance_id);

  const launch = ({ pool, node_id, node_instance_id, bootstrap }: EnsureTarget): DriverOutcome => {
    const known = machines.get(node_instance_id);
    const character = known?.character ?? characters.get(pool)?.shift() ?? 'well';
    if (character === 'refused') {
      const message = 'the provider refuses';
      return { outcome: 'failed', owner_layer: 'provider', code: 'quota', message, retryable: false };
    }
    if (known) mistakes.push({ pool, what: `${node_instance_id} was launched again after it was gone` });
    const other = [...machines.values()].find((each) => each.node_id === node_id && exists(each));
    if (other) mistakes.push({ pool, what: `${node_id} got a machine while ${other.node_instance_id} exists` });
    const launches = (known?.launches ?? 0) + 1;
    const { enrollment_token } = bootstrap;
    machines.set(node_instance_id, {
      ...{ pool, node_id, node_instance_id, character, enrollment_token, launches },
      state: 'creating',
    });
    return waits('the provider makes it');
  };

  const end = async (target: DriverTarget): Promise<DriverOutcome> => {
    const machine = of(target);
    if (!machine || machine.state === 'gone') return done('there is none');
    if (machine.state === 'deleting') {
      machine.state = 'gone';
      return done('it is gone');
    }
    machine.state = 'deleting';
    return waits('the provider ends it');
  };

  const driver = simulatedDriver({
    name: 'yard',
    async ensure(target) {
      const machine = of(target);
      if (!machine || machine.state === 'gone') return launch(target);
      if (machine.state === 'creating') machine.state = machine.character === 'crashes' ? 'exited' : 'running';
      return done('it is launched');
    },
    async observe(target) {
      const state = of(target)?.state ?? 'gone';
      return { state: state === 'gone' ? 'absent' : state, present: state !== 'gone', ready: false, detail: null };
    },
    destroy: end,
    async prove(target, { kind, nonce }) {
      const machine = of(target);
      if (kind === 'absent' && (!machine || !exists(machine)))
        return { outcome: 'done', proof: { kind, nonce, checked: [{ what: 'the yard', seen: 'nothing' }] } };
      const message = `it cannot be proven ${kind}: it is ${machine?.state ?? 'absent'}`;
      return { outcome: 'failed', owner_layer: 'provider', code: 'not_proven', message, retryable: true };
    },
    async diagnose(target) {
      const state = of(target)?.state ?? 'gone';
      return { summary: `the machine is ${state}`, certain: state === 'exited', attachments: [] };
    },
    async list_owned() {
      return [...machines.values()].filter(exists).map((machine) => ({
        resource: `yard/${machine.node_instance_id}`,
        kind: 'machine',
        node_id: machine.node_id as never,
        node_instance_id: machine.node_instance_id,
      }));
    },
  });
  return { driver, machines, mistakes, characters, exists };
}
