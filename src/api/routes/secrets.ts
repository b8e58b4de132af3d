/**
 * Stores, lists, deletes and re-encrypts secrets. Answers and evidence never contain their values.
 */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { minSecretLength, type SecretValueProblem, secretValueProblem } from '../../contract/security/secret-values.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { unguessableForms } from '../../store/rows/secrets/known-values.ts';
import {
  deleteSecret,
  listSecrets,
  putSecret,
  readPoolsBySecret,
  rotateSecrets,
  secretWire,
} from '../../store/rows/secrets/secrets.ts';
import { actorOf } from '../http/callers.ts';
import type { Handlers } from '../services.ts';

const valueProblems: Record<SecretValueProblem, string> = {
  reserved_word: 'The value is a word that Slipway itself uses. Redacting it would damage logs and evidence.',
  too_short: `The value has fewer than ${minSecretLength} characters.`,
  too_uniform: 'The value repeats a few characters. Redacting it would damage ordinary text.',
};

type SecretRoutes = 'secret-put' | 'secret-list' | 'secret-delete' | 'secret-rotate';

export const secretHandlers: Pick<Handlers, SecretRoutes> = {
  async 'secret-put'({ params, body, person, correlation_id }, services) {
    const at = now(services.clock);
    const { name } = params;
    const problem = secretValueProblem(body.value);
    if (problem) throw new ApiProblem('secret_value_unsuitable', valueProblems[problem]);
    services.db.redact.learn(unguessableForms(body.value));
    const row = await services.db.transaction(async (tx) => {
      const stored = await putSecret(tx, services.key_ring, name, body.value, at);
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'secret.set',
          summary: `secret ${name} was set (version ${stored.version})`,
          data: { name, version: stored.version, kid: stored.kid },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
      return stored;
    });
    const pools = await readPoolsBySecret(services.db, [name]);
    return secretWire(row, services.key_ring, pools.get(name) ?? []);
  },
  async 'secret-list'(_, services) {
    const rows = await listSecrets(services.db);
    const pools = await readPoolsBySecret(
      services.db,
      rows.map(({ name }) => name),
    );
    const items = rows.map((row) => secretWire(row, services.key_ring, pools.get(row.name) ?? []));
    return { items, next_cursor: null };
  },
  async 'secret-delete'({ params, query, person, correlation_id }, services) {
    const at = now(services.clock);
    const { name } = params;
    await services.db.transaction(async (tx) => {
      // Delete before looking for pools. A transaction that declares a pool with this secret waits
      // for the row lock, so either this query sees the pool or the declaration is refused.
      if (!(await deleteSecret(tx, name))) throw new ApiProblem('secret_not_found', `There is no secret ${name}.`);
      const used_by = (await readPoolsBySecret(tx, [name])).get(name) ?? [];
      if (used_by.length > 0 && !query.force)
        throw new ApiProblem('secret_in_use', `The secret ${name} is used by the pools ${used_by.join(', ')}.`);
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'secret.deleted',
          summary: `secret ${name} was deleted`,
          data: { name, used_by },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return undefined;
  },
  async 'secret-rotate'({ person, correlation_id }, services) {
    const at = now(services.clock);
    const { kid } = services.key_ring.current;
    const rotation = await services.db.transaction(async (tx) => {
      const counts = await rotateSecrets(tx, services.key_ring);
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'secret.rotated',
          summary: `${counts.rotated} secrets were re-encrypted with the key ${kid}`,
          data: { kid, ...counts },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
      return counts;
    });
    return { kid, ...rotation };
  },
};
