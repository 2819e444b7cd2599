//! Random objects: of each kind a body, and parts that are laid over it in any combination, good ones and bad ones.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::Random;

/// A kind, and what its objects are made of.
pub(super) struct Sort {
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    body: Value,
    parts: Vec<Value>,
}

/// A random kind.
pub(super) fn sort(random: &mut Random) -> &'static Sort {
    static ALL: OnceLock<Vec<Sort>> = OnceLock::new();
    let all = ALL.get_or_init(sorts);
    &all[random.below(all.len())]
}

/// A random object of a kind.
pub(super) fn object(random: &mut Random, sort: &Sort, namespace: &str, name: &str) -> Value {
    let mut body = sort.body.clone();
    for part in sort.parts.iter().chain(&metadata()) {
        if random.one_in(3) {
            lay(&mut body, part);
        }
    }
    body["metadata"]["name"] = json!(name);
    body["metadata"]["namespace"] = json!(namespace);
    body
}

fn lay(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                lay(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

fn metadata() -> Vec<Value> {
    vec![
        json!({"metadata": {"labels": {"app": "web"}}}),
        json!({"metadata": {"labels": {"tier": "b"}, "annotations": {"note": "x"}}}),
        json!({"metadata": {"annotations": {}}}),
        json!({"metadata": {"finalizers": []}}),
    ]
}

/// A pod, and parts of pods, both at a place.
fn pods(kind: (&str, &str), at: &[&str], restart: Option<&str>, mut more: Vec<Value>) -> (Value, Vec<Value>) {
    let place = |value: Value| at.iter().rev().fold(value, |inner, key| json!({(*key): inner}));
    let mut pod = json!({"containers": [{"name": "c", "image": "nginx:1.27"}]});
    if let Some(restart) = restart {
        pod["restartPolicy"] = json!(restart);
    }
    let mut body = json!({"apiVersion": kind.0, "kind": kind.1});
    lay(&mut body, &place(json!({"metadata": {"labels": {"app": "web"}}, "spec": pod})));
    let container = |more: Value| {
        let mut one = json!({"name": "c", "image": "nginx:1.27"});
        lay(&mut one, &more);
        place(json!({"spec": {"containers": [one]}}))
    };
    let mut parts = vec![
        container(
            json!({"ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}]}),
        ),
        container(
            json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        ),
        container(
            json!({"resources": {"requests": {"cpu": "1000m", "memory": "0.5Gi"}, "limits": {"cpu": 2}}}),
        ),
        container(
            json!({"livenessProbe": {"httpGet": {"path": "/", "port": "http"}}, "imagePullPolicy": "Always"}),
        ),
        container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
        place(json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}})),
        place(json!({"spec": {"initContainers": [{"name": "i", "image": "busybox", "command": ["true"]}]}})),
        place(
            json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"disk": "ssd"}}}),
        ),
        place(json!({"spec": {"securityContext": {"runAsNonRoot": true}, "serviceAccountName": "robot"}})),
        place(json!({"metadata": {"annotations": {"checksum": "1"}}})),
    ];
    parts.append(&mut more);
    (body, parts)
}

fn workloads() -> Vec<Sort> {
    let sort = |version, plural, (body, parts)| Sort { version, plural, body, parts };
    let selected = |kind: &str, more: Vec<Value>| {
        let (mut body, parts) = pods(("apps/v1", kind), &["spec", "template"], None, more);
        lay(&mut body, &json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}}));
        (body, parts)
    };
    let spec = |value: Value| json!({ "spec": value });
    let deployment = vec![
        spec(json!({"replicas": 3})),
        spec(json!({"replicas": -1})),
        spec(json!({"strategy": {"type": "Recreate"}})),
        spec(json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}}})),
        spec(json!({"paused": true, "minReadySeconds": 5})),
        spec(json!({"selector": {"matchLabels": {"app": "other"}}})),
    ];
    let stateful = vec![
        spec(json!({"serviceName": "db", "replicas": 2, "podManagementPolicy": "Parallel"})),
        spec(
            json!({"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}]}),
        ),
        spec(json!({"updateStrategy": {"type": "OnDelete"}})),
    ];
    let daemons = vec![spec(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}))];
    let job = vec![
        spec(json!({"ttlSecondsAfterFinished": 60, "backoffLimit": 2})),
        spec(json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"})),
        spec(json!({"suspend": true})),
    ];
    let cron = vec![
        spec(json!({"suspend": true, "concurrencyPolicy": "Forbid"})),
        spec(json!({"schedule": "never"})),
        spec(json!({"timeZone": "Europe/Paris", "successfulJobsHistoryLimit": 0})),
    ];
    let (mut crons, cron_parts) =
        pods(("batch/v1", "CronJob"), &["spec", "jobTemplate", "spec", "template"], Some("Never"), cron);
    lay(&mut crons, &spec(json!({"schedule": "* * * * *", "suspend": true})));
    vec![
        sort("/apis/apps/v1", "deployments", selected("Deployment", deployment)),
        sort("/apis/apps/v1", "statefulsets", selected("StatefulSet", stateful)),
        sort("/apis/apps/v1", "daemonsets", selected("DaemonSet", daemons)),
        sort("/apis/batch/v1", "jobs", pods(("batch/v1", "Job"), &["spec", "template"], Some("Never"), job)),
        sort("/apis/batch/v1", "cronjobs", (crons, cron_parts)),
    ]
}

fn sorts() -> Vec<Sort> {
    let sort = |version, plural, body, parts| Sort { version, plural, body, parts };
    let mut all = workloads();
    all.extend([
        sort(
            "/api/v1",
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            vec![
                json!({"data": {"a": "1", "b": "2"}}),
                json!({"data": {"a": "3"}, "immutable": true}),
                json!({"binaryData": {"c": "AAAA"}}),
                json!({"data": {"b/d": "no key"}}),
                json!({"data": {}}),
            ],
        ),
        sort(
            "/api/v1",
            "secrets",
            json!({"apiVersion": "v1", "kind": "Secret"}),
            vec![
                json!({"stringData": {"a": "1"}}),
                json!({"data": {"b": "Mg=="}}),
                json!({"type": "example.com/own"}),
                json!({"type": "kubernetes.io/tls"}),
            ],
        ),
        sort(
            "/api/v1",
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}),
            vec![
                json!({"spec": {"selector": {"app": "web"}}}),
                json!({"spec": {"ports": [{"port": 80, "name": "http", "targetPort": "web"}, {"port": 81, "name": "more"}]}}),
                json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}}),
                json!({"spec": {"sessionAffinity": "ClientIP"}}),
                json!({"spec": {"clusterIP": "None"}}),
                json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
            ],
        ),
        sort(
            "/apis/networking.k8s.io/v1",
            "ingresses",
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}),
            vec![
                json!({"spec": {"ingressClassName": "x", "tls": [{"hosts": ["a.example.com"]}]}}),
                json!({"spec": {"rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix",
                    "backend": {"service": {"name": "web", "port": {"name": "http"}}}}]}}]}}),
                json!({"spec": {"rules": [{"host": "UPPER.example.com"}]}}),
            ],
        ),
        sort(
            "/apis/networking.k8s.io/v1",
            "networkpolicies",
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"podSelector": {}}}),
            vec![
                json!({"spec": {"ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}}),
                json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}], "policyTypes": ["Egress"]}}),
            ],
        ),
        sort(
            "/apis/autoscaling/v2",
            "horizontalpodautoscalers",
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}),
            vec![
                json!({"spec": {"minReplicas": 2}}),
                json!({"spec": {"minReplicas": 9}}),
                json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}}]}}),
                json!({"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}}),
            ],
        ),
        sort(
            "/apis/policy/v1",
            "poddisruptionbudgets",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"selector": {"matchLabels": {"app": "web"}}}}),
            vec![json!({"spec": {"minAvailable": "50%"}}), json!({"spec": {"maxUnavailable": 1}})],
        ),
        sort(
            "/api/v1",
            "serviceaccounts",
            json!({"apiVersion": "v1", "kind": "ServiceAccount"}),
            vec![
                json!({"automountServiceAccountToken": false}),
                json!({"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}),
            ],
        ),
        sort(
            "/apis/rbac.authorization.k8s.io/v1",
            "roles",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}),
            vec![
                json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}),
                json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}),
                json!({"rules": []}),
            ],
        ),
    ]);
    all
}
