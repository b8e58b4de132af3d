/**
 * The driver's interface to EC2 in one region. The only file that uses the SDK, which is loaded at
 * first use.
 */
import type { EC2Client, Filter, Instance, RunInstancesCommandInput, Tag } from '@aws-sdk/client-ec2';
import type { Clock } from '../../base/clock.ts';
import { codeOf, isMissing } from './cloud-error.ts';
import type { AccountSecrets } from './secrets.ts';
import type { Tags } from './tags.ts';

export interface InstanceRow {
  id: string;
  tags: Tags;
  /** The provider's own word: pending, running, stopping, stopped, shutting-down, terminated. */
  state: string;
  /** The reason for the state, if the provider gives one: `Client.VolumeLimitExceeded: …`. */
  reason: string | null;
  spot: boolean;
  private_ip: string | null;
}

/** A resource that can outlive a machine, and is ours by its tags. */
export interface PartRow {
  id: string;
  kind: 'volume' | 'network-interface';
  tags: Tags;
  /** The provider's own word; `available` means not attached. */
  state: string;
}

export interface Checks {
  system: string;
  instance: string;
  events: string[];
}

export interface Cloud {
  readonly region: string;
  instances(tags: Tags): Promise<InstanceRow[]>;
  /** Null if there is none with that id. */
  instance(id: string): Promise<InstanceRow | null>;
  run(request: RunInstancesCommandInput): Promise<InstanceRow>;
  start(id: string): Promise<void>;
  stop(ids: string[], force: boolean): Promise<void>;
  /** Does nothing if it is gone. */
  terminate(ids: string[]): Promise<void>;
  parts(tags: Tags): Promise<PartRow[]>;
  remove(part: PartRow): Promise<void>;
  rootDevice(image_id: string): Promise<string | null>;
  checks(id: string): Promise<Checks | null>;
  consoleText(id: string): Promise<string>;
  secrets(): Promise<AccountSecrets>;
}

/** Longer than a call of the driver may take: the request goes on, and the next call joins it. */
const max_seconds = 20;
const page_size = 1000;

const filtersOf = (tags: Tags): Filter[] =>
  Object.entries(tags).map(([name, value]) => ({ Name: `tag:${name}`, Values: [value] }));

const tagsIn = (tags: Tag[] | undefined): Tags =>
  Object.fromEntries((tags ?? []).map(({ Key = '', Value = '' }) => [Key, Value]));

const reasonOf = ({ StateReason, StateTransitionReason }: Instance): string | null => {
  const { Code = '', Message = '' } = StateReason ?? {};
  const said = Message.startsWith(Code) ? Message : `${Code}: ${Message}`;
  return [Code || Message ? said : '', StateTransitionReason ?? ''].filter(Boolean).join(', ') || null;
};

const rowOf = (instance: Instance): InstanceRow => ({
  id: instance.InstanceId ?? '',
  tags: tagsIn(instance.Tags),
  state: instance.State?.Name ?? 'unknown',
  reason: reasonOf(instance),
  spot: instance.InstanceLifecycle === 'spot',
  private_ip: instance.PrivateIpAddress ?? null,
});

async function pages<Page extends { NextToken?: string | undefined }>(
  ask: (NextToken: string | undefined) => Promise<Page>,
): Promise<Page[]> {
  const all: Page[] = [];
  for (let token: string | undefined, first = true; first || token; first = false) {
    const page = await ask(token);
    all.push(page);
    token = page.NextToken || undefined;
  }
  return all;
}

/** A missing resource counts as removed. */
const unlessMissing = async (answer: Promise<unknown>): Promise<void> => {
  await answer.catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
};

export interface CloudOptions {
  region: string;
  /** Null: the provider's own address in that region. */
  endpoint: string | null;
  clock: Clock;
}

export async function openCloud({ region, endpoint, clock }: CloudOptions): Promise<Cloud> {
  const sdk = await import('@aws-sdk/client-ec2');
  const client: EC2Client = new sdk.EC2Client({
    region,
    ...(endpoint !== null && { endpoint }),
    // No retries in the client: the operation waits between tries, where people can see it.
    maxAttempts: 1,
    requestHandler: { connectionTimeout: 3_000, requestTimeout: max_seconds * 1000 },
  });

  /** Aborts in the end, so that a dead connection is not kept. */
  const bounded = async <T>(ask: (abortSignal: AbortSignal) => Promise<T>): Promise<T> => {
    const over = new AbortController();
    const cancel = clock.after(max_seconds * 1000, () => over.abort());
    try {
      return await ask(over.signal);
    } finally {
      cancel();
    }
  };
  const describe = async (query: { Filters?: Filter[]; InstanceIds?: string[] }): Promise<InstanceRow[]> => {
    const found = await pages((NextToken) =>
      bounded((abortSignal) =>
        client.send(
          new sdk.DescribeInstancesCommand({
            ...query,
            ...(query.Filters && { MaxResults: page_size }),
            ...(NextToken && { NextToken }),
          }),
          { abortSignal },
        ),
      ),
    );
    return found.flatMap(({ Reservations = [] }) => Reservations.flatMap(({ Instances = [] }) => Instances.map(rowOf)));
  };

  const volumes = async (Filters: Filter[]): Promise<PartRow[]> => {
    const found = await pages((NextToken) =>
      bounded((abortSignal) =>
        client.send(new sdk.DescribeVolumesCommand({ Filters, ...(NextToken && { NextToken }) }), { abortSignal }),
      ),
    );
    return found.flatMap(({ Volumes = [] }) =>
      Volumes.map(({ VolumeId = '', State = 'unknown', Tags }) => ({
        id: VolumeId,
        kind: 'volume' as const,
        tags: tagsIn(Tags),
        state: State,
      })),
    );
  };
  const networkInterfaces = async (Filters: Filter[]): Promise<PartRow[]> => {
    const found = await pages((NextToken) =>
      bounded((abortSignal) =>
        client.send(new sdk.DescribeNetworkInterfacesCommand({ Filters, ...(NextToken && { NextToken }) }), {
          abortSignal,
        }),
      ),
    );
    return found.flatMap(({ NetworkInterfaces = [] }) =>
      NetworkInterfaces.map(({ NetworkInterfaceId = '', Status = 'unknown', TagSet }) => ({
        id: NetworkInterfaceId,
        kind: 'network-interface' as const,
        tags: tagsIn(TagSet),
        state: Status,
      })),
    );
  };

  const consoleOf = (InstanceId: string, Latest: boolean) =>
    bounded((abortSignal) =>
      client.send(new sdk.GetConsoleOutputCommand({ InstanceId, ...(Latest && { Latest }) }), { abortSignal }),
    );

  return {
    region,
    instances: (tags) => describe({ Filters: filtersOf(tags) }),
    async instance(id) {
      try {
        return (await describe({ InstanceIds: [id] }))[0] ?? null;
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },
    async run(request) {
      const { Instances = [] } = await bounded((abortSignal) =>
        client.send(new sdk.RunInstancesCommand(request), { abortSignal }),
      );
      const [launched] = Instances;
      if (!launched) throw new Error('RunInstances answered without a machine');
      return rowOf(launched);
    },
    async start(id) {
      await bounded((abortSignal) =>
        client.send(new sdk.StartInstancesCommand({ InstanceIds: [id] }), { abortSignal }),
      );
    },
    stop: (ids, Force) =>
      unlessMissing(
        bounded((abortSignal) =>
          client.send(new sdk.StopInstancesCommand({ InstanceIds: ids, ...(Force && { Force }) }), { abortSignal }),
        ),
      ),
    terminate: (ids) =>
      unlessMissing(
        bounded((abortSignal) => client.send(new sdk.TerminateInstancesCommand({ InstanceIds: ids }), { abortSignal })),
      ),
    async parts(tags) {
      const filters = filtersOf(tags);
      const found = await Promise.all([volumes(filters), networkInterfaces(filters)]);
      return found.flat().filter(({ state }) => !['deleting', 'deleted'].includes(state));
    },
    remove: ({ kind, id }) =>
      unlessMissing(
        bounded<unknown>((abortSignal) =>
          kind === 'volume'
            ? client.send(new sdk.DeleteVolumeCommand({ VolumeId: id }), { abortSignal })
            : client.send(new sdk.DeleteNetworkInterfaceCommand({ NetworkInterfaceId: id }), { abortSignal }),
        ),
      ),
    async rootDevice(image_id) {
      const { Images = [] } = await bounded((abortSignal) =>
        client.send(new sdk.DescribeImagesCommand({ ImageIds: [image_id] }), { abortSignal }),
      );
      return Images[0]?.RootDeviceName ?? null;
    },
    async checks(id) {
      const { InstanceStatuses = [] } = await bounded((abortSignal) =>
        client.send(new sdk.DescribeInstanceStatusCommand({ InstanceIds: [id], IncludeAllInstances: true }), {
          abortSignal,
        }),
      );
      const [status] = InstanceStatuses;
      if (!status) return null;
      return {
        system: status.SystemStatus?.Status ?? 'unknown',
        instance: status.InstanceStatus?.Status ?? 'unknown',
        events: (status.Events ?? []).map(({ Code = '', Description = '' }) => `${Code}: ${Description}`),
      };
    },
    async consoleText(id) {
      // Only newer instance types show the current console; for others it is the last stored one.
      const { Output } = await consoleOf(id, true).catch((error: unknown) => {
        if (!/^(Unsupported|InvalidParameter)/.test(codeOf(error))) throw error;
        return consoleOf(id, false);
      });
      return Buffer.from(Output ?? '', 'base64').toString('utf8');
    },
    secrets: () => client.config.credentials(),
  };
}
