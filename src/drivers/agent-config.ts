/**
 * The part of an agent's first configuration that is the same for every driver: its server and its
 * identity.
 */
import { isSentInClear } from '../base/network/insecure-http.ts';
import type { EnsureTarget } from './driver.ts';

export function agentIdentity({ bootstrap, ...target }: EnsureTarget) {
  // The operator allowed plain HTTP by giving this server such an address (--public-url). That does
  // not allow plain HTTP to other replicas.
  const allow_insecure_http = isSentInClear(bootstrap.server_url);
  const others = bootstrap.other_server_urls ?? [];
  return {
    server_url: bootstrap.server_url,
    ca: bootstrap.ca ?? null,
    other_server_urls: allow_insecure_http ? others : others.filter((url) => !isSentInClear(url)),
    allow_insecure_http,
    otlp_endpoint: bootstrap.otlp_endpoint ?? null,
    enrollment_token: bootstrap.enrollment_token,
    deadline_at: bootstrap.deadline_at,
    node_id: target.node_id,
    node_instance_id: target.node_instance_id,
    name: target.name,
    correlation_id: target.correlation_id,
    workflow_id: target.workflow_id,
    secret_env: bootstrap.secret_env ?? [],
  };
}
