/**
 * An EC2 account in memory: instances with their volumes and interfaces, client tokens, and states
 * that advance each time they are read.
 */
import { createHash, randomBytes } from 'node:crypto';
import { Ec2Refusal, listOf, type Query, tagFilters, tagsFor } from './query.ts';

export interface FakeInstance {
  id: string;
  region: string;
  state: 'pending' | 'running' | 'stopping' | 'stopped' | 'shutting-down' | 'terminated';
  reason: string | null;
  tags: Record<string, string>;
  token: string;
  /** Of the request without its token: EC2 refuses a reused token with another request. */
  request_digest: string;
  fields: URLSearchParams;
  spot: boolean;
  /** Text that the instance wrote to its serial console. */
  console: string;
}

export interface FakePart {
  id: string;
  kind: 'volume' | 'network-interface';
  instance: string | null;
  tags: Record<string, string>;
}

const newId = (prefix: string) => `${prefix}-0${randomBytes(8).toString('hex')}`;

const digestOf = (fields: URLSearchParams) => {
  const kept = [...fields].filter(([name]) => name !== 'ClientToken');
  return createHash('sha256').update(JSON.stringify(kept)).digest('hex');
};

/** The next state, which is entered after the current one was read. */
const next: Partial<Record<FakeInstance['state'], FakeInstance['state']>> = {
  pending: 'running',
  stopping: 'stopped',
  'shutting-down': 'terminated',
};

/** Hooks for tests that really boot instances. */
export interface Boots {
  launched?(instance: FakeInstance): void;
  ended?(instance: FakeInstance): void;
}

export function createAccount(images: string[], boots: Boots = {}) {
  const instances = new Map<string, FakeInstance>();
  const parts = new Map<string, FakePart>();
  let console_text: string | null = null;
  /** The state reason that the next launched instance gets at once. */
  let doomed: string | null = null;

  const carriesAll = (tags: Record<string, string>, fields: URLSearchParams) =>
    tagFilters(fields).every(([name, values]) => values.includes(tags[name] ?? ''));

  const named = (fields: URLSearchParams): FakeInstance[] =>
    listOf(fields, 'InstanceId').map((id) => {
      const found = instances.get(id);
      if (!found) throw new Ec2Refusal('InvalidInstanceID.NotFound', `The instance ID '${id}' does not exist`);
      return found;
    });

  const dispose = (instance: FakeInstance) => {
    for (const part of [...parts.values()]) if (part.instance === instance.id) parts.delete(part.id);
  };
  const pass = (instance: FakeInstance) => {
    const after = next[instance.state];
    if (!after) return;
    instance.state = after;
    if (after === 'terminated') dispose(instance);
    if (after === 'terminated' || after === 'stopped') boots.ended?.(instance);
  };

  const run = ({ fields, region }: Query): FakeInstance => {
    const image = fields.get('ImageId') ?? '';
    if (!images.includes(image))
      throw new Ec2Refusal('InvalidAMIID.NotFound', `The image id '[${image}]' does not exist`);
    const token = fields.get('ClientToken') ?? '';
    const request_digest = digestOf(fields);
    const before = token && [...instances.values()].find((each) => each.token === token);
    if (before) {
      if (before.request_digest === request_digest) return before;
      throw new Ec2Refusal(
        'IdempotentParameterMismatch',
        'Arguments on this idempotent request are inconsistent with arguments used in previous request(s).',
      );
    }
    const instance: FakeInstance = {
      id: newId('i'),
      region,
      state: doomed ? 'terminated' : 'pending',
      reason: doomed,
      tags: tagsFor(fields, 'instance'),
      token,
      request_digest,
      fields,
      spot: fields.get('InstanceMarketOptions.MarketType') === 'spot',
      console: '',
    };
    doomed = null;
    instances.set(instance.id, instance);
    for (const kind of instance.state === 'terminated' ? [] : (['volume', 'network-interface'] as const)) {
      const id = newId(kind === 'volume' ? 'vol' : 'eni');
      parts.set(id, { id, kind, instance: instance.id, tags: tagsFor(fields, kind) });
    }
    boots.launched?.(instance);
    return instance;
  };

  return {
    instances,
    parts,
    showConsole: (text: string) => {
      console_text = text;
    },
    consoleText: (id: string) => console_text ?? instances.get(id)?.console ?? '',
    doom: (reason: string) => {
      doomed = reason;
    },
    image: (id: string) => images.includes(id),
    run,
    named,
    dispose,
    /**
     * Returns the instances in the query's region that match its ids or tags. Each advances by one
     * state after it was returned.
     */
    look(query: Query): FakeInstance[] {
      const candidates = listOf(query.fields, 'InstanceId').length > 0 ? named(query.fields) : [...instances.values()];
      const found = candidates.filter((each) => each.region === query.region && carriesAll(each.tags, query.fields));
      const shown = found.map((each) => ({ ...each }));
      found.forEach(pass);
      return shown;
    },
    partsOf: (kind: FakePart['kind'], fields: URLSearchParams): FakePart[] =>
      [...parts.values()].filter((part) => part.kind === kind && carriesAll(part.tags, fields)),
  };
}

export type FakeAccount = ReturnType<typeof createAccount>;
