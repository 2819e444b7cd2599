//! The repo that benches with API servers use: ten namespaces, and 330 times a Deployment, a Service and a `ConfigMap`
//! for every cluster. That is 1,000 objects per cluster.

use std::fs;
use std::path::Path;

pub(crate) const APPS: usize = 330;
pub(crate) const NAMESPACES: usize = 10;

/// Writes everything but the inventory.
pub(crate) fn write(repo: &Path) {
    fs::create_dir_all(repo).unwrap();
    fs::write(repo.join("policy.yaml"), POLICY).unwrap();
    for number in 0..NAMESPACES {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{number}}}\n");
        fs::write(repo.join(format!("team-{number}.yaml")), namespace).unwrap();
    }
    for number in 0..APPS {
        fs::write(repo.join(format!("app-{number}.yaml")), app(number)).unwrap();
    }
}

pub(crate) const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: everywhere}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Namespace}
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: v1, kind: Service}
  - {apiVersion: v1, kind: ConfigMap}
  placement: {clusterAffinity: {}}
";

pub(crate) fn app(number: usize) -> String {
    let at = format!("name: app-{number}\n  namespace: team-{}\n", number % NAMESPACES);
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  {at}  labels: {{app: app-{number}, tier: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: app-{number}}}}}
  template:
    metadata: {{labels: {{app: app-{number}, tier: web}}}}
    spec:
      containers:
      - name: app
        image: registry.example.com/app-{number}:1.4.2
        args: [--listen=:8080, --config=/etc/app/config.yaml]
        ports: [{{name: http, containerPort: 8080}}, {{name: metrics, containerPort: 9090}}]
        env:
        - {{name: LOG_LEVEL, value: info}}
        - {{name: REGION, value: eu-west}}
        resources:
          requests: {{cpu: 250m, memory: 256Mi}}
          limits: {{cpu: 500m, memory: 512Mi}}
        readinessProbe: {{httpGet: {{path: /ready, port: http}}}}
        volumeMounts: [{{name: config, mountPath: /etc/app}}]
      volumes: [{{name: config, configMap: {{name: app-{number}}}}}]
---
apiVersion: v1
kind: Service
metadata:
  {at}spec:
  selector: {{app: app-{number}}}
  ports: [{{name: http, port: 80, targetPort: http}}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  {at}data: {{config.yaml: 'listen: :8080'}}
"
    )
}
