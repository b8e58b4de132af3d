/** What every agent is told at its first start, whichever driver launches it: where its server is, and who it is. */
import { isSentInClear } from '../base/network/insecure-http.ts';
import type { EnsureTarget } from './driver.ts';

export function agentIdentity({ bootstrap, ...target }: EnsureTarget) {
  // The operator gave the server such an address (--public-url); another replica's is not taken for that.
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
