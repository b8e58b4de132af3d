/** A fake EC2 endpoint that serves the query protocol and can fail in the ways EC2 does. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Boots, createAccount, type FakeAccount } from './account.ts';
import { actions } from './actions.ts';
import { Ec2Refusal, type Query, readQuery, responseXml } from './query.ts';

/**
 * How the next requests of an action fail. `refuse` answers with an error, `cut` disconnects before
 * or after the effect, `body` sends this answer, `hang` never answers, and `unlisted` answers as if
 * no instance existed.
 */
export type Fault =
  | { refuse: string; message?: string; status?: number }
  | { cut: 'before' | 'after' }
  | { body: string; status: number }
  | 'hang'
  | 'unlisted';

export interface Ec2Server {
  endpoint: string;
  account: FakeAccount;
  /** Every requested action, in order. */
  queries: Query[];
  /** Applies to the given number of requests of that action, or to all of them. */
  plant(action: string, fault: Fault, times?: number): void;
  /** Removes all planted faults. */
  heal(): void;
  /** Limits the page size of lists, whatever the request says. */
  pageSize(max: number): void;
  close(): Promise<void>;
}

export const someImage = 'ami-0123456789abcdef0';

export async function startEc2(boots: Boots = {}): Promise<Ec2Server> {
  const account = createAccount([someImage], boots);
  const queries: Query[] = [];
  let page: number | null = null;
  const plantedFaults = new Map<string, { fault: Fault; remaining: number }>();

  const faultFor = (action: string): Fault | null => {
    const entry = plantedFaults.get(action) ?? plantedFaults.get('*');
    if (!entry || entry.remaining <= 0) return null;
    entry.remaining--;
    return entry.fault;
  };
  const answer = (query: Query): string => {
    const action = actions[query.action];
    if (!action) throw new Ec2Refusal('InvalidAction', `The action ${query.action} is not valid for this web service.`);
    return action(account, query);
  };
  const send = (reply: ServerResponse, status: number, body: string) =>
    reply.writeHead(status, { 'content-type': 'text/xml;charset=UTF-8' }).end(body);

  const server = createServer(async (request, reply) => {
    const query = await readQuery(request);
    queries.push(query);
    if (page !== null && query.fields.has('MaxResults')) query.fields.set('MaxResults', String(page));
    const fault = faultFor(query.action);
    try {
      if (fault === 'hang') return;
      if (fault === 'unlisted') {
        if (query.fields.has('InstanceId.1')) throw new Ec2Refusal('InvalidInstanceID.NotFound', 'does not exist');
        return send(reply, 200, responseXml(query.action, { reservationSet: [] }));
      }
      if (fault && 'refuse' in fault)
        throw new Ec2Refusal(fault.refuse, fault.message ?? `planted ${fault.refuse}`, fault.status);
      if (fault && 'body' in fault) return send(reply, fault.status, fault.body);
      if (fault?.cut === 'before') return request.socket.destroy();
      const body = answer(query);
      if (fault?.cut === 'after') return request.socket.destroy();
      return send(reply, 200, body);
    } catch (error) {
      if (!(error instanceof Ec2Refusal)) throw error;
      return send(reply, error.status, error.xml());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    account,
    queries,
    plant: (action, fault, times = Number.POSITIVE_INFINITY) => plantedFaults.set(action, { fault, remaining: times }),
    heal: () => plantedFaults.clear(),
    pageSize: (max) => {
      page = max;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
