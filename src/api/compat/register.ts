/** Registers a client of a foreign protocol, on the same path as our own agents. */
import { now } from '../../base/clock.ts';
import { RegisterRequest } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { type InstanceRow, instanceRow } from '../../store/agents/instances.ts';
import { isNameHeld } from '../../store/agents/joins/known-names.ts';
import { readNameStanding } from '../../store/agents/joins/name-standing.ts';
import { register } from '../../store/agents/register.ts';
import type { Arrival, Registration } from '../../store/agents/registration-types.ts';
import { sourceAddress } from '../http/source-address.ts';
import { compileCheck } from '../http/validation.ts';
import { registrationCost, registrationWriter } from '../limits/quotas/writers.ts';
import type { ProtocolCall, ProtocolServices } from './calls.ts';
import { type JudgedReturn, mustBeRestart } from './restart.ts';

export type ClientRegistration = Omit<RegisterRequest, 'join_token' | 'enrollment_token'> & { name: string };

/**
 * The request was validated against the client's own schema. Its translation must also match the
 * schema of our own agents.
 */
const checkRegistration = compileCheck(RegisterRequest, 'body');

/** Refuses a join that exceeds its write quota, before any look-up or probe. */
export function admitJoin(call: ProtocolCall, services: ProtocolServices, registration: ClientRegistration): void {
  const { secret: join_token } = call.grant();
  const writer = registrationWriter(call.request, { ...registration, join_token }, undefined, services);
  const release = services.writeLimits.reserve(writer, registrationCost);
  // The registration makes its own reservation later.
  release();
}

export async function enrol(
  call: ProtocolCall,
  services: ProtocolServices,
  request: RegisterRequest,
  known: InstanceRow | undefined,
  arrival: Arrival,
): Promise<Registration> {
  const { clock, environment, installation, db } = services;
  const { correlation_id } = call;
  const writer = registrationWriter(call.request, request, known, services);
  const account = { charge: (rows: number, bytes: number) => services.writeLimits.charge(writer, rows, bytes) };
  const context = { clock, now: now(clock), environment, installation, correlation_id, arrival, account };
  const registration = await services.writeLimits.whileReserved(writer, registrationCost, () =>
    register(db, checkRegistration(request) as RegisterRequest, known, context),
  );
  services.sessions.forget(registration.node_instance_id);
  // Forget the former instance at once; the fact of its fence may arrive later.
  if (arrival.judged?.node_instance_id) services.sessions.forget(arrival.judged.node_instance_id);
  return registration;
}

/**
 * An unused name joins as a new node. A registration under a known name must be a restart of the
 * holder of the name. A new instance is created if the former one never registered, has said
 * goodbye, or belongs to another process and is no longer live.
 */
export async function enrolByJoinToken(
  call: ProtocolCall,
  services: ProtocolServices,
  registration: ClientRegistration,
  client: Omit<Arrival, 'join_token_id' | 'judged' | 'client_processes'>,
): Promise<Registration> {
  const { pool, secret: join_token, token_id: join_token_id } = call.grant();
  const { protocol, client_instance } = client;
  const nameKey = { pool, name: registration.name };
  const enrolAsNew = (judgedReturn?: JudgedReturn) =>
    enrol(call, services, { ...registration, join_token }, undefined, { ...client, join_token_id, ...judgedReturn });

  admitJoin(call, services, registration);
  const first = await readNameStanding(services.db, nameKey);
  if (!first) {
    try {
      return await enrolAsNew();
    } catch (error) {
      // Two registrations under one name raced: judge this one as a return.
      if (!(error instanceof ApiProblem && error.code === 'name_taken')) throw error;
    }
  }
  const standing = first ?? (await readNameStanding(services.db, nameKey));
  if (!standing) throw new ApiProblem('name_taken', `${registration.name} was just released; register again.`);
  const source = sourceAddress(call.request);
  const claimant = { protocol, client_instance, join_token_id, base_url: registration.base_url ?? null, source };
  const judgedReturn = await mustBeRestart(standing, claimant, services);
  const isOtherProcess =
    standing.client_instance !== null && client_instance !== null && standing.client_instance !== client_instance;
  const known = await instanceRow(services.db, standing.node_instance_id ?? '');
  // A process that starts after a goodbye is not ready until it says so, even without a process id.
  const hasLeft = standing.status === 'offline' && standing.verdict_rule === 'goodbye';
  if (!known?.registered_at || hasLeft || (isOtherProcess && !isNameHeld(standing.status)))
    return enrolAsNew(judgedReturn);
  return enrol(call, services, registration, known, { ...client, join_token_id, ...judgedReturn });
}
